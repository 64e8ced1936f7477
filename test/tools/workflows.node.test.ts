/** The workflows of GitHub Actions, and what Cloudflare's deploy button reads of package.json. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { projectRoot, readWranglerConfig } from "../../tools/wrangler.ts";

type Step = Readonly<{ name?: string; uses?: string; run?: string; env?: Readonly<Record<string, string>> }>;
type Workflow = Readonly<{
  permissions?: unknown;
  concurrency?: Readonly<{ group: string; "cancel-in-progress": boolean }>;
  jobs: Readonly<
    Record<string, Readonly<{ "timeout-minutes"?: number; permissions?: unknown; steps: readonly Step[] }>>
  >;
}>;

const manifest: Readonly<{
  scripts: Readonly<Record<string, string>>;
  cloudflare: Readonly<{ bindings: Readonly<Record<string, Readonly<{ description: string }>>> }>;
}> = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));

const folder = join(projectRoot, ".github/workflows");
const workflows = readdirSync(folder).map((name) => ({
  name,
  workflow: parse(readFileSync(join(folder, name), "utf8")) as Workflow,
}));
const jobsOf = ({ jobs }: Workflow) => Object.values(jobs);
const stepsOf = (workflow: Workflow) => jobsOf(workflow).flatMap(({ steps }) => steps);
const deployment = workflows.find(({ name }) => name === "deploy.yml")?.workflow ?? { jobs: {} };

describe.each(workflows)("$name", ({ name, workflow }) => {
  test("runs scripts that package.json has, and existing files", () => {
    const text = stepsOf(workflow).flatMap(({ run }) => run ?? []);
    const scripts = text.join("\n").matchAll(/\bnpm (?:run )?([\w:-]+)/g);
    const known = ["ci", "pack", "publish", "view", ...Object.keys(manifest.scripts)];
    expect(
      [...scripts].map(([, script]) => script).filter((script) => !known.includes(script ?? "")),
    ).toEqual([]);
    expect(text.length).toBeGreaterThan(0);
  });

  test("may only read the repository, except the release, ends by itself, and pins its actions", () => {
    expect(workflow.permissions).toEqual({ contents: "read" });
    const more = name === "release.yml" ? { contents: "write", "id-token": "write" } : undefined;
    for (const job of jobsOf(workflow)) expect(job.permissions).toEqual(more);
    for (const job of jobsOf(workflow)) expect(job["timeout-minutes"]).toBeLessThanOrEqual(60);
    for (const { uses } of stepsOf(workflow))
      if (uses) expect(uses).toMatch(/^actions\/[\w-]+@[0-9a-f]{40}$/);
  });
});

test("two deployments of an environment never run at once, and none is interrupted by the next", () => {
  const group = expect.stringMatching(/^deploy-\$\{\{ inputs\.environment \|\| vars\.DEPLOY_ON_PUSH \}\}$/);
  expect(deployment.concurrency).toEqual({ group, "cancel-in-progress": false });
});

test("types, lint and tests come before the deployment", () => {
  const commands = stepsOf(deployment).flatMap(({ run }) => run ?? []);
  expect(commands.slice(0, 3)).toEqual(["npm ci", "npm run check", "npm test"]);
  expect(commands[3]).toContain("npm run deploy");
});

describe("the deployment's step", () => {
  const script = stepsOf(deployment).find(({ name }) => name === "Deploy")?.run ?? "";

  /** Runs it with an `npm` that prints its arguments and the secrets file that they name. */
  function run(env: Readonly<Record<string, string>>): string[] {
    const directory = mkdtempSync(join(tmpdir(), "breakwater-workflow-"));
    const npm = join(directory, "npm");
    writeFileSync(
      npm,
      '#!/bin/sh\necho "$*" | sed "s|$RUNNER_TEMP|TEMP|g; s|secrets\\.[A-Za-z0-9]*|FILE|"\ncat "$RUNNER_TEMP"/secrets.* 2>/dev/null || true\n',
    );
    chmodSync(npm, 0o755);
    try {
      const variables = {
        GITHUB_SHA: "c0ffee",
        RUNNER_TEMP: directory,
        ADMIN_KEY: "",
        MASTER_KEYS: "",
        ...env,
      };
      const path = `${directory}${delimiter}${process.env.PATH}`;
      const options = { env: { ...process.env, ...variables, PATH: path }, encoding: "utf8" } as const;
      const printed = execFileSync("bash", ["--noprofile", "-eo", "pipefail", "-c", script], options);
      expect(readdirSync(directory)).toEqual(["npm"]);
      return printed.trim().split("\n");
    } finally {
      rmSync(directory, { recursive: true });
    }
  }

  test("deploys the chosen environment, and keeps the Worker's secrets", () => {
    expect(run({ TARGET: "staging" })).toEqual(["run deploy -- --tag c0ffee --env staging"]);
  });

  test("deploys the top level of the file without an environment", () => {
    expect(run({ TARGET: "top-level" })).toEqual(["run deploy -- --tag c0ffee"]);
  });

  test("sets the repository's secrets, by a file that is removed afterwards", () => {
    expect(run({ TARGET: "production", ADMIN_KEY: 'a "key"', MASTER_KEYS: "k1:=" })).toEqual([
      "run deploy -- --tag c0ffee --env production --secrets-file TEMP/FILE",
      '{"ADMIN_KEY":"a \\"key\\"","MASTER_KEYS":"k1:="}',
    ]);
    expect(run({ TARGET: "production", ADMIN_KEY: "only this" }).at(-1)).toBe('{"ADMIN_KEY":"only this"}');
  });
});

test("the deploy button has descriptions for exactly the bindings, variables and secrets", async () => {
  const config = (await readWranglerConfig()) as unknown as Readonly<{
    vars: object;
    secrets: Readonly<{ required: readonly string[] }>;
    d1_databases: readonly Readonly<{ binding: string }>[];
    durable_objects: Readonly<{ bindings: readonly Readonly<{ name: string }>[] }>;
    queues: Readonly<{ producers: readonly Readonly<{ binding: string }>[] }>;
    ratelimits: readonly Readonly<{ name: string }>[];
  }>;
  const bound = [
    ...Object.keys(config.vars),
    ...config.secrets.required,
    ...config.d1_databases.map(({ binding }) => binding),
    ...config.durable_objects.bindings.map(({ name }) => name),
    ...config.queues.producers.map(({ binding }) => binding),
    ...config.ratelimits.map(({ name }) => name),
  ];
  const { bindings } = manifest.cloudflare;
  expect(Object.keys(bindings).toSorted()).toEqual(bound.toSorted());
  for (const { description } of Object.values(bindings)) expect(description).toMatch(/^.{20,200}\.$/);
});
