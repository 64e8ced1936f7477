/** The examples of shops in several frameworks, each started at a port of its own. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { projectRoot } from "../../tools/wrangler.ts";
import { localServer } from "../support/local-server.ts";
import { until } from "./until.ts";

/** The packages that the examples need besides this repository: `.ci/run` installs them. */
const INSTALLED = join(projectRoot, "node_modules/.cache/examples");
const PYTHON = join(INSTALLED, "python/bin/python");
/** Gems that the system has are found too. */
const withGems = {
  ...process.env,
  GEM_PATH: `${join(INSTALLED, "gems")}:`,
  PATH: `${join(INSTALLED, "gems/bin")}:${process.env.PATH}`,
};
const EXPRESS = join(INSTALLED, "node_modules/express");

type Environment = Readonly<{ BREAKWATER_URL: string; BREAKWATER_KEY: string; WEBHOOK_SECRET: string }>;

/** A shop. `start` resolves with what stops it, once it answers at the port. */
type Shop = Readonly<{
  name: string;
  isInstalled: boolean;
  start(port: number, env: Environment): Promise<() => void>;
}>;

export const shops: readonly Shop[] = [
  { name: "hono", isInstalled: true, start: startHono },
  {
    name: "express",
    isInstalled: existsSync(EXPRESS),
    async start(port, env) {
      return started(port, env, process.execPath, [await bundled("examples/express/app.js", "express.mjs")]);
    },
  },
  {
    name: "fastapi",
    isInstalled: existsSync(PYTHON) && spawnSync(PYTHON, ["-c", "import fastapi, uvicorn"]).status === 0,
    start: (port, env) =>
      started(port, env, PYTHON, ["-m", "uvicorn", "app:app", "--port", String(port)], "examples/fastapi"),
  },
  {
    name: "rails",
    isInstalled: spawnSync("ruby", ["-e", 'require "rails"; require "puma"'], { env: withGems }).status === 0,
    start: (port, env) => started(port, env, "puma", ["--port", String(port)], "examples/rails"),
  },
];

/** The example as one file, with the client of this repository. */
async function bundled(file: string, to: string): Promise<string> {
  mkdirSync(INSTALLED, { recursive: true });
  const outfile = join(INSTALLED, to);
  await build({
    absWorkingDir: projectRoot,
    entryPoints: [file],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    external: ["express"],
    alias: {
      "breakwater-client": "./client/src/breakwater.ts",
      "breakwater-client/verify": "./client/src/verify.ts",
    },
  });
  return outfile;
}

/** It needs no Workers runtime: Node has `Request` and `Response`. */
async function startHono(port: number, env: Environment): Promise<() => void> {
  const worker = await import(pathToFileURL(await bundled("examples/hono/src/worker.ts", "hono.mjs")).href);
  const server = localServer(async (incoming, outgoing) => {
    const { method = "", url = "", headers } = incoming;
    const body = Buffer.concat(await incoming.toArray());
    const request = new Request(`http://127.0.0.1:${port}${url}`, {
      method,
      headers: headers as Record<string, string>,
      ...(body.length > 0 && { body }),
    });
    const response: Response = await worker.default.fetch(request, env);
    outgoing.writeHead(response.status).end(await response.text());
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return () => server.close();
}

async function started(
  port: number,
  env: Environment,
  command: string,
  args: readonly string[],
  cwd = ".",
): Promise<() => void> {
  const child: ChildProcess = spawn(command, [...args], {
    cwd: join(projectRoot, cwd),
    stdio: "ignore",
    env: { ...withGems, ...env, PORT: String(port) },
  });
  const url = `http://127.0.0.1:${port}/`;
  const answers = () => fetch(url).then(Boolean, () => false);
  await until(answers, { otherwise: () => `${command} does not answer` });
  return () => child.kill();
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
