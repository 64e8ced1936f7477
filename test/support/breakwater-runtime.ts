/** Breakwater in the local runtime: a Worker bundled once, with the bindings that wrangler.toml names. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { unstable_getMiniflareWorkerOptions as workerOptionsOf } from "wrangler";
import { bundleWorker } from "../../src/local/bundle.ts";
import { ensureDevVars } from "../../src/local/dev-vars.ts";
import { projectRoot } from "../../src/local/wrangler.ts";
import { type Runtime, startRuntime } from "./runtime.ts";

/** An empty one. @param vars override its variables and secrets */
export function startBreakwater(vars: Readonly<Record<string, string>>): Promise<Runtime> {
  ensureDevVars();
  return startRuntime((place) => optionsIn(place, vars), migrations());
}

async function optionsIn(place: string, vars: object): Promise<object> {
  // What is bundled needs no rules about its modules.
  const { modulesRules: _, ...options } = workerOptionsOf(join(projectRoot, "wrangler.toml")).workerOptions;
  const bindings = { ...(options.bindings as object), ...vars };
  const scriptPath = await bundleWorker(place);
  return { ...options, name: "breakwater", modulesRoot: place, rootPath: place, scriptPath, bindings };
}

function migrations(): string[] {
  const folder = join(projectRoot, "migrations");
  const files = readdirSync(folder).filter((name) => name.endsWith(".sql"));
  return files.sort().flatMap((file) => {
    return readFileSync(join(folder, file), "utf8").split("--> statement-breakpoint");
  });
}
