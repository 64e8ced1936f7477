/** The process that Breakwater runs in: the bundled Worker, with the bindings that wrangler.toml names. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { unstable_getMiniflareWorkerOptions as workerOptionsOf } from "wrangler";
import { bundleWorker } from "../../../src/local/bundle.ts";
import { ensureDevVars } from "../../../src/local/dev-vars.ts";
import { projectRoot } from "../../../src/local/wrangler.ts";
import { KEY } from "./contender.ts";
import { startRuntime } from "./runtime.ts";

ensureDevVars();
const url = await startRuntime(optionsIn, migrations());
process.send?.(url);

async function optionsIn(place: string): Promise<object> {
  // What is bundled needs no rules about its modules.
  const { modulesRules: _, ...options } = workerOptionsOf(join(projectRoot, "wrangler.toml")).workerOptions;
  const bindings = { ...(options.bindings as object), ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" };
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
