/** Breakwater in the local runtime: a Worker bundled once, with the bindings that wrangler.toml names. */
import { join } from "node:path";
import { unstable_getMiniflareWorkerOptions as workerOptionsOf } from "wrangler";
import { bundleWorker } from "../../tools/bundle.ts";
import { ensureDevVars } from "../../tools/dev-vars.ts";
import { projectRoot } from "../../tools/wrangler.ts";
import { migrationFiles } from "./migration-files.ts";
import { type Runtime, startRuntime } from "./runtime.ts";

type Options = Readonly<{
  /** Variables and secrets that override its own. */
  vars: Readonly<Record<string, string>>;
  /** An entry point instead of that of wrangler.toml. */
  main?: string;
  /** Consumers by queue, in addition to those of wrangler.toml. */
  queueConsumers?: object;
  /** Bindings in addition to those of wrangler.toml. */
  queueProducers?: Readonly<Record<string, Readonly<{ queueName: string }>>>;
  serviceBindings?: Readonly<Record<string, string>>;
  /** Makes further Workers, given a directory. */
  others?: (place: string) => Promise<readonly object[]>;
  /** Whether to serve https, with an unknown certificate. */
  https?: boolean;
}>;

/** Starts an empty Breakwater. Its log is dropped, except for lines about its own faults. */
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

/** Bundles a Worker, and describes it as its wrangler.toml does. */
export async function workerIn(
  place: string,
  config: string,
  main?: string,
): Promise<Readonly<Record<string, unknown>>> {
  // A bundle needs no rules about modules.
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
