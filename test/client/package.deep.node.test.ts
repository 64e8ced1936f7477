/** The package as it is published: packed, installed into an empty project without network, compiled and run. */
import { execFile, spawnSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { configurationIn } from "../../client/cli/configuration.ts";
import { projectRoot } from "../../tools/wrangler.ts";
import { skipped } from "../support/skipped.ts";

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "breakwater-client-"));
const project = join(folder, "project");
const installed = join(project, "node_modules/breakwater-client");
afterAll(() => rmSync(folder, { recursive: true }));

/** The package's dependencies. npm finds them installed, so that it needs no registry. */
const DEPENDENCIES = [
  "openapi-fetch",
  "openapi-typescript-helpers",
  "standardwebhooks",
  "@stablelib/base64",
  "fast-sha256",
];

const SOURCE = `
import { breakwaterClient, dataOf, type Delivery } from "breakwater-client";
import { verify } from "breakwater-client/verify";

export async function use(send: (request: Request) => Promise<Response>): Promise<string> {
  const breakwater = breakwaterClient({ url: "https://breakwater.example", key: "bw_1", fetch: send });
  const { id } = dataOf(await breakwater.POST("/v1/events", { body: { type: "a", data: 1 } }));
  const dead: Delivery[] = [];
  for await (const delivery of breakwater.list("/v1/deliveries", { state: "dead" })) dead.push(delivery);
  const refusal = await verify(new Request("https://receiver.example/"), "whsec_AAAA").catch((error) => error.name);
  return [id, dead.length, refusal].join(" ");
}

export const answered = (request: Request) =>
  use(async ({ method }) =>
    method === "POST"
      ? Response.json({ id: "evt_1", deliveries: [] }, { status: 202 })
      : Response.json({ data: [{ id: "dlv_1" }], next_cursor: null }),
  ).then((text) => new Response(text + " " + request.method));
`;
const EXPECTED = "evt_1 1 WebhookVerificationError GET";

beforeAll(async () => {
  const npm = { cwd: folder, env: { ...process.env, npm_config_offline: "true" } };
  await run(process.execPath, ["client/build.ts", join(folder, "package")], { cwd: projectRoot });
  await run("npm", ["pack", "./package"], npm);
  mkdirSync(join(project, "node_modules"), { recursive: true });
  copyModules(DEPENDENCIES);
  writeFileSync(join(project, "package.json"), '{ "private": true, "type": "module" }');
  const [tarball = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", join(folder, tarball)], {
    ...npm,
    cwd: project,
  });
  copyModules(["@types/node", "undici-types"]);
  writeFileSync(join(project, "use.ts"), SOURCE);
});

function copyModules(names: readonly string[]) {
  for (const name of names)
    cpSync(join(projectRoot, "node_modules", name), join(project, "node_modules", name), { recursive: true });
}

const bundled = async (options: Parameters<typeof build>[0]) => {
  const result = await build({
    absWorkingDir: project,
    entryPoints: ["use.ts"],
    bundle: true,
    write: false,
    format: "esm",
    ...options,
  });
  return result.outputFiles?.[0]?.text ?? "";
};

test.each([
  { of: "browsers", lib: ["es2022", "dom", "dom.iterable", "dom.asynciterable"], resolution: "bundler" },
  { of: "Node", lib: ["es2022"], types: ["node"], resolution: "nodenext" },
])("compiles strictly with the types of $of, its declarations included", async ({
  lib,
  types = [],
  resolution,
}) => {
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    target: "es2022",
    module: resolution === "bundler" ? "esnext" : "nodenext",
    moduleResolution: resolution,
    lib,
    types,
    // The declarations of Standard Webhooks name Buffer, which browsers do not have.
    skipLibCheck: types.length === 0,
  };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["use.ts"] }));
  const tsc = join(projectRoot, "node_modules/typescript/bin/tsc");
  const result = await run(process.execPath, [tsc, "-p", project]).catch((error) => error);
  expect(result.stdout).toBe("");
});

test("runs in Node", async () => {
  const script = `import { answered } from "./use.ts";
    console.log(await (await answered(new Request("https://any.example"))).text());`;
  const { stdout } = await run(process.execPath, ["--input-type=module-typescript", "-e", script], {
    cwd: project,
  });
  expect(stdout.trim()).toBe(EXPECTED);
});

test("installs the command", async () => {
  const { stdout } = await run(join(project, "node_modules/.bin/breakwater"), [
    "deliveries",
    "why",
    "--help",
  ]);
  expect(stdout).toContain("Usage: breakwater deliveries why <id>");
});

/** Each prints the words for the last one of `breakwater replays create --include d`, and all commands that begin with `re`. */
const SHELLS = {
  bash: [
    "--norc",
    `eval "$(breakwater completion bash)"
    complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _breakwater; echo "\${COMPREPLY[*]}"; }
    complete_words breakwater replays create --include d
    complete_words breakwater re
    complete_words breakwater keys ""`,
  ],
  zsh: [
    "-f",
    `autoload -Uz compinit && compinit -u -D
    eval "$(breakwater completion zsh)"
    compadd() { print -r -- "\${(@P)2}"; }
    complete_words() { local words=("$@") CURRENT=$#; $_comps[breakwater]; }
    complete_words breakwater replays create --include d
    complete_words breakwater re
    complete_words breakwater keys ""`,
  ],
  fish: [
    "--no-config",
    `breakwater completion fish | source
    echo (complete -C "breakwater replays create --include d")
    echo (complete -C "breakwater re")
    echo (complete -C "breakwater keys ")
    string match -q "package.json*" (complete -C "breakwater apply --file package"); or echo no files`,
  ],
} as const;

describe.each(Object.entries(SHELLS))("%s", (shell, [flag, script]) => {
  const isMissing = spawnSync(shell, ["-c", ":"]).error !== undefined;
  if (isMissing) return skipped(`completion in ${shell}`, "this machine lacks it");

  test("completes words of the command", async () => {
    const path = `${join(project, "node_modules/.bin")}:${process.env.PATH}`;
    const env = { ...process.env, PATH: path, HOME: folder };
    const { stdout } = await run(shell, [flag, "-c", script], { cwd: join(folder, "package"), env });
    const sorted = stdout.split("\n").map((line) => line.split(" ").sort().join(" "));
    expect(sorted).toEqual(["dead delivered", "replays", "create list revoke", ""]);
  });
});

describe("init", () => {
  const made = join(project, "shop");
  const init = (...args: string[]) =>
    run(join(project, "node_modules/.bin/breakwater"), ["init", ...args], { cwd: project });

  test("makes a folder from which wrangler would deploy, with secrets that only the user can read", async () => {
    const { stdout } = await init("shop", "--name", "shop");
    expect(stdout).toContain("cd shop && npm install");
    const secrets = readFileSync(join(made, ".secrets"), "utf8");
    expect(stdout).not.toContain(secrets.split(/[=\n]/)[1]);
    expect(statSync(join(made, ".secrets")).mode & 0o777).toBe(0o600);
    symlinkSync(join(projectRoot, "node_modules"), join(made, "node_modules"));
    const env = { ...process.env, PATH: `${join(projectRoot, "node_modules/.bin")}:${process.env.PATH}` };
    const deploy = [
      "run",
      "--offline",
      "deploy",
      "--",
      "--dry-run",
      "--secrets-file",
      ".secrets",
      "--outdir",
      "out",
    ];
    const deployment = await run("npm", deploy, { cwd: made, env });
    expect(statSync(join(made, "out/worker.js")).size).toBeGreaterThan(1_000_000);
    expect(deployment.stdout).toContain("create those of these databases that are missing: shop\n");
    expect(deployment.stdout).toContain("shop-deliveries, shop-drains, shop-upkeep, shop-dead");
    const { tenants } = configurationIn(parse(readFileSync(join(made, "breakwater.yaml"), "utf8")));
    expect(Object.keys(tenants?.acme?.destinations ?? {})).toEqual(["orders"]);
  });

  test("replaces the Worker and adds migrations in such a folder, and leaves everything else", async () => {
    const files = ["breakwater/worker.js", "migrations/0000_schema.sql", ".secrets", "wrangler.toml"];
    for (const file of files) writeFileSync(join(made, file), "mine");
    expect((await init("shop")).stdout).toContain("are of this version");
    expect(files.filter((file) => readFileSync(join(made, file), "utf8") === "mine")).toEqual(files.slice(2));
  });

  test.each([
    ["src", [], "is not empty"],
    ["new", ["--name", 'x"y'], "--name is"],
  ])("into %s with %j makes nothing", async (folder, flags, text) => {
    mkdirSync(join(project, "src"), { recursive: true });
    writeFileSync(join(project, "src/own.js"), "");
    await expect(init(folder, ...flags)).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining(text),
    });
    expect(readdirSync(join(project, "src"))).toEqual(["own.js"]);
    expect(readdirSync(project)).not.toContain("new");
  });
});

describe("bundled", () => {
  test("for browsers it needs nothing of Node", async () => {
    const text = await bundled({ platform: "browser", minify: true });
    expect(text).not.toMatch(/from\s*"node:|require\("/);
    expect(text.length).toBeLessThan(40_000);
  });

  test("for Workers it runs in workerd", async () => {
    const entry = `import { answered } from "./use.ts"; export default { fetch: answered };`;
    writeFileSync(join(project, "worker.ts"), entry);
    const script = await bundled({ entryPoints: ["worker.ts"], conditions: ["workerd", "worker"] });
    const workerd = new Miniflare(
      convertV4MiniflareOptions({ modules: true, script, compatibilityDate: "2026-01-01" }),
    );
    try {
      expect(await (await workerd.dispatchFetch("https://any.example")).text()).toBe(EXPECTED);
    } finally {
      await workerd.dispose();
    }
  });
});

test("its SBOM lists the packages that the Worker and its script contain, and no others", () => {
  const sbom = JSON.parse(readFileSync(join(installed, "deployment/sbom.cdx.json"), "utf8"));
  const { dependencies, version } = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));
  const withTheirs = ["@asteasolutions/zod-to-openapi", "@hono/zod-validator", ...Object.keys(dependencies)];
  const components: readonly { name: string; version: string; purl: string; hashes: object[] }[] =
    sbom.components;
  expect(components.map(({ name }) => name).sort()).toEqual(withTheirs.sort());
  for (const [name, pinned] of Object.entries(dependencies))
    expect(components.find((component) => component.name === name)?.version).toBe(pinned);
  const router = components.find(({ name }) => name === "@hono/zod-openapi");
  expect(router?.purl).toBe(`pkg:npm/%40hono/zod-openapi@${router?.version}`);
  expect(router?.hashes).toEqual([{ alg: "SHA-512", content: expect.stringMatching(/^[0-9a-f]{128}$/) }]);
  expect(sbom.metadata.component).toMatchObject({ type: "application", name: "breakwater", version });
});

test("the package has a licence, a description, and the version of the deployment whose API it types", () => {
  const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  const { version } = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));
  expect(manifest).toMatchObject({ name: "breakwater-client", version });
  expect(readdirSync(installed)).toEqual(expect.arrayContaining(["LICENSE", "README.md"]));
});
