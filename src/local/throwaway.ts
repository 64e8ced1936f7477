/**
 * A stack that nobody else sees: its own state, port, secrets and copy of the Worker. Several run side by
 * side, while the sources are being edited.
 */
import { randomBytes } from "node:crypto";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureDevVars } from "./dev-vars.ts";
import { applyMigrations } from "./migrations.ts";
import { type Stack, startStack } from "./stack.ts";
import { STRICT_WORKER, type Strict, strictFlags, strictVars } from "./strict-flags.ts";
import { bundleWorker, projectRoot } from "./wrangler.ts";

/** Named, because wrangler would look for it beside the bundle. */
const config = join(projectRoot, "wrangler.toml");

export const THROWAWAY_KEY = "demo-key-0123456789";

export type Throwaway = Readonly<{
  /** Starts the stack on the state that is there, again if need be. */
  start: () => Promise<Stack>;
  /** All that wrangler and the Worker have said. */
  said: () => string;
  /** The end of it. */
  lastWords: () => string;
  /** Removes the state, which happens at the end of this process anyway. The stack must have ended. */
  discard: () => void;
}>;

/** Of this stack alone: nothing that it seals is ever opened by another. */
function masterKey(): string {
  return `throwaway:${randomBytes(32).toString("base64")}`;
}

/**
 * An empty Breakwater in a temporary directory.
 * @param vars override its variables
 * @param strict under production's quotas, when given
 */
export async function prepareThrowaway(
  vars: Readonly<Record<string, string>> = {},
  strict?: Strict,
): Promise<Throwaway> {
  ensureDevVars();
  const place = mkdtempSync(join(tmpdir(), "breakwater-"));
  const discard = () => rmSync(place, { recursive: true, force: true, maxRetries: 5 });
  process.once("exit", discard);
  const log = join(place, "wrangler.log");
  const output = openSync(log, "a");
  const flags = strict ? strictFlags() : [];
  const [worker] = await Promise.all([
    bundleWorker(join(place, "bundle"), strict && STRICT_WORKER, flags),
    applyMigrations(place),
  ]);
  const args = [
    worker,
    "--no-bundle",
    "--config",
    config,
    "--ip",
    "127.0.0.1",
    "--port",
    "0",
    "--persist-to",
    place,
    ...flags,
  ];
  const ours = {
    ADMIN_KEY: THROWAWAY_KEY,
    MASTER_KEYS: masterKey(),
    ALLOW_PRIVATE_DESTINATIONS: "true",
    ...(strict && strictVars(strict)),
    ...vars,
  };
  // Wrangler's registry has one entry for each Worker's name: stacks side by side would overwrite it.
  const env = {
    WRANGLER_REGISTRY_PATH: join(place, "registry"),
    WRANGLER_CI_DISABLE_CONFIG_WATCHING: "true",
  };
  const said = () => readFileSync(log, "utf8");
  return {
    said,
    start: () => startStack({ args, vars: ours, env, output }),
    lastWords: () => said().split("\n").slice(-30).join("\n"),
    discard: () => {
      process.off("exit", discard);
      closeSync(output);
      discard();
    },
  };
}
