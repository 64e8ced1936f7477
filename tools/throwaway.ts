/**
 * A temporary stack with its own state, port, secrets and copy of the Worker. Several can run at the same time,
 * while the sources are being edited.
 */
import { randomBytes } from "node:crypto";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundleWorker } from "./bundle.ts";
import { ensureDevVars } from "./dev-vars.ts";
import { copyMigrated } from "./migrate.ts";
import { type Stack, startStack } from "./stack.ts";
import { STRICT_WORKER, type Strict, strictFlags, strictVars } from "./strict-flags.ts";
import { projectRoot } from "./wrangler.ts";

export const THROWAWAY_KEY = "demo-key-0123456789";

type Throwaway = Readonly<{
  /** Starts the stack on its state; also again, after it was stopped or killed. */
  start: () => Promise<Stack>;
  /** All output of wrangler and the Worker. */
  output: () => string;
  /** The end of the output. */
  lastLines: () => string;
  /** Removes the state, which the end of this process does too. The stack must have ended. */
  discard: () => void;
}>;

type ThrowawayWorker = Readonly<{
  /** Bundles it into the directory and returns the path. Wrangler would restart sources whenever one is saved. */
  bundled: (directory: string) => Promise<string>;
  /** The path of its configuration, for which wrangler would otherwise search beside the bundle. */
  config: string;
  /** The address to listen on, at any free port. */
  ip: string;
  vars: Readonly<Record<string, string>>;
  flags?: readonly string[];
}>;

/** A stack with a temporary directory for its state, its bundle and its log. */
export async function throwawayStack(
  prefix: string,
  { bundled, config, ip, vars, flags = [] }: ThrowawayWorker,
): Promise<Throwaway> {
  const directory = mkdtempSync(join(tmpdir(), prefix));
  const remove = () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  process.once("exit", remove);
  const log = join(directory, "wrangler.log");
  const logFile = openSync(log, "a");
  const worker = await bundled(directory);
  const place = ["--config", config, "--ip", ip, "--port", "0", "--persist-to", directory];
  const args = [worker, "--no-bundle", ...place, ...flags];
  // Wrangler's registry has one entry for each Worker's name, which stacks at the same time would overwrite.
  const env = {
    WRANGLER_REGISTRY_PATH: join(directory, "registry"),
    WRANGLER_CI_DISABLE_CONFIG_WATCHING: "true",
  };
  const output = () => readFileSync(log, "utf8");
  return {
    output,
    start: () => startStack({ args, vars, env, output: logFile }),
    lastLines: () => output().split("\n").slice(-30).join("\n"),
    discard: () => {
      process.off("exit", remove);
      closeSync(logFile);
      remove();
    },
  };
}

/**
 * An empty Breakwater in a temporary directory.
 * @param vars override those of wrangler.toml
 * @param strict runs it under production's quotas
 */
export async function prepareThrowaway(vars: Readonly<Record<string, string>> = {}, strict?: Strict) {
  ensureDevVars();
  const flags = strict ? await strictFlags() : [];
  return throwawayStack("breakwater-", {
    ...{ config: join(projectRoot, "wrangler.toml"), ip: "127.0.0.1", flags },
    bundled: async (directory) => {
      const bundle = bundleWorker(join(directory, "bundle"), strict && STRICT_WORKER, flags);
      const [worker] = await Promise.all([bundle, copyMigrated(directory)]);
      return worker;
    },
    vars: {
      ADMIN_KEY: THROWAWAY_KEY,
      // A key of this stack's own: no other stack opens what it seals.
      MASTER_KEYS: `throwaway:${randomBytes(32).toString("base64")}`,
      ALLOW_PRIVATE_DESTINATIONS: "true",
      ...(strict && strictVars(strict)),
      ...vars,
    },
  });
}
