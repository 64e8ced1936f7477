/** Breakwater in the local runtime: a Worker bundled once, with the bindings that wrangler.toml names. */
import { join } from "node:path";
import { unstable_getMiniflareWorkerOptions as workerOptionsOf } from "wrangler";
import { bundleWorker } from "../../tools/bundle.ts";
import { ensureDevVars } from "../../tools/dev-vars.ts";
import { projectRoot } from "../../tools/wrangler.ts";
import { migrationFiles } from "./migration-files.ts";
import { type Runtime, startRuntime } from "./runtime.ts";

type Options = Readonly<{
  /** Override its variables and secrets. */
  vars: Readonly<Record<string, string>>;
  /** Another entry than that of wrangler.toml. */
  main?: string;
  /** Consumers besides those of wrangler.toml, by their queues. */
  queueConsumers?: object;
  /** Bindings besides those of wrangler.toml. */
  queueProducers?: Readonly<Record<string, Readonly<{ queueName: string }>>>;
  serviceBindings?: Readonly<Record<string, string>>;
  /** Workers beside it, given a directory. */
  others?: (place: string) => Promise<readonly object[]>;
  /** Serve https, with a certificate that nobody knows. */
  https?: boolean;
}>;

/** An empty one. What it logs is dropped, but for what it says of its own faults. */
export function startBreakwater(options: Options): Promise<Runtime> {
  ensureDevVars();
  return startRuntime((place) => optionsIn(place, options), migrations());
}

async function optionsIn(
  place: string,
  { vars, main, others, https = false, ...also }: Options,
): Promise<object> {
  const options = await workerIn(place, "wrangler.toml", main);
  // The simulator has no jurisdictions.
  const bindings = { ...(options.bindings as object), JURISDICTION: "", ...vars };
  const breakwater = {
    ...options,
    name: "breakwater",
    bindings,
    queueConsumers: { ...(options.queueConsumers as object), ...also.queueConsumers },
    queueProducers: { ...(options.queueProducers as object), ...also.queueProducers },
    serviceBindings: { ...(options.serviceBindings as object), ...also.serviceBindings },
  };
  return { workers: [breakwater, ...((await others?.(place)) ?? [])], handleStructuredLogs, https };
}

/** A Worker as its wrangler.toml describes it, bundled. */
export async function workerIn(
  place: string,
  config: string,
  main?: string,
): Promise<Readonly<Record<string, unknown>>> {
  // What is bundled needs no rules about its modules.
  const { modulesRules: _, ...options } = workerOptionsOf(join(projectRoot, config)).workerOptions;
  const scriptPath = await bundleWorker(place, main, ["--config", config]);
  return { ...options, modules: true, modulesRoot: place, rootPath: place, scriptPath };
}

function handleStructuredLogs({ level, message }: { level: string; message: string }): void {
  if (level === "error" || level === "warn") console.error(message);
}

function migrations(): string[] {
  return migrationFiles().flatMap((sql) => sql.split("--> statement-breakpoint"));
}
