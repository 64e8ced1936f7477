/** Wrangler's flags and variables for running the Worker under production's quotas: see strict/worker.ts. */
import type { Quotas } from "./strict/quotas.ts";
import { readWranglerConfig } from "./wrangler.ts";

export const STRICT_WORKER = "tools/strict/worker.ts";

export type Strict = Readonly<{
  /** The seed of the calls' latencies. Default: no added latency. */
  latency?: number | undefined;
  /** Limits other than the paid plan's. */
  quotas?: Partial<Quotas>;
}>;

/** For `wrangler dev` and `wrangler deploy --dry-run`, besides the entry point. */
export async function strictFlags(): Promise<string[]> {
  // A flag on the command line replaces all those in the file.
  const { compatibility_flags } = await readWranglerConfig();
  return [...compatibility_flags, "nodejs_als"].flatMap((flag) => ["--compatibility-flag", flag]);
}

export function strictVars({ latency, quotas }: Strict): Record<string, string> {
  return {
    ...(latency !== undefined && { STRICT_LATENCY: String(latency) }),
    ...(quotas && { STRICT_QUOTAS: JSON.stringify(quotas) }),
  };
}
