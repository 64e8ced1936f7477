/** Breakwater in the local runtime: a Worker bundled once, with the bindings that wrangler.toml names. */
import { join } from "node:path";
import { unstable_getMiniflareWorkerOptions as workerOptionsOf } from "wrangler";
import { ensureDevVars } from "../../src/local/dev-vars.ts";
import { bundleWorker, projectRoot } from "../../src/local/wrangler.ts";
import { migrationFiles } from "./migration-files.ts";
import { type Runtime, startRuntime } from "./runtime.ts";

type Options = Readonly<{
  /** Override its variables and secrets. */
  vars: Readonly<Record<string, string>>;
  /** Another entry than that of wrangler.toml. */
  main?: string;
  /** Another Worker that runs with it, and what Breakwater binds of it. */
  beside?: Readonly<{
    worker: Readonly<{ name: string; script: string }> & Readonly<Record<string, unknown>>;
    queueProducers: Readonly<Record<string, Readonly<{ queueName: string }>>>;
    serviceBindings: Readonly<Record<string, string>>;
  }>;
}>;

/** An empty one. What it logs is dropped, but for what it says of its own faults. */
export function startBreakwater(options: Options): Promise<Runtime> {
  ensureDevVars();
  return startRuntime((place) => optionsIn(place, options), migrations());
}

async function optionsIn(place: string, { vars, main, beside }: Options): Promise<object> {
  // What is bundled needs no rules about its modules.
  const { modulesRules: _, ...options } = workerOptionsOf(join(projectRoot, "wrangler.toml")).workerOptions;
  const bindings = { ...(options.bindings as object), ...vars };
  const scriptPath = await bundleWorker(place, main);
  const own = {
    ...options,
    name: "breakwater",
    modules: true,
    modulesRoot: place,
    rootPath: place,
    scriptPath,
    bindings,
  };
  if (beside === undefined) return { ...own, handleStructuredLogs };
  const { worker, queueProducers, serviceBindings } = beside;
  const bound = {
    queueProducers: { ...(options.queueProducers as object), ...queueProducers },
    serviceBindings: { ...(options.serviceBindings as object), ...serviceBindings },
  };
  const both = [
    { ...own, ...bound },
    { modules: true, ...worker },
  ];
  return { modules: undefined, workers: both, handleStructuredLogs };
}

function handleStructuredLogs({ level, message }: { level: string; message: string }): void {
  if (level === "error" || level === "warn") console.error(message);
}

function migrations(): string[] {
  return migrationFiles().flatMap((sql) => sql.split("--> statement-breakpoint"));
}
