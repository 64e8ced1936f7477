/** What wrangler is told so that the Worker runs under production's quotas: see strict/worker.ts. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Quotas } from "./strict/quotas.ts";
import { projectRoot } from "./wrangler.ts";

export const STRICT_WORKER = "src/local/strict/worker.ts";

export type Strict = Readonly<{
  /** The seed of the time that each call takes; none takes time when absent. */
  latency?: number | undefined;
  /** Limits other than the paid plan's. */
  quotas?: Partial<Quotas>;
}>;

/** The flags that `wrangler dev` and `wrangler deploy --dry-run` need besides the name of the Worker's file. */
export function strictFlags(): string[] {
  const toml = readFileSync(join(projectRoot, "wrangler.toml"), "utf8");
  const [, list = ""] = /^compatibility_flags = \[([^\]]*)\]/m.exec(toml) ?? [];
  // A flag on the command line takes the place of all those in the file.
  const flags = [...list.matchAll(/^\s*"([^"]+)"/gm)].map(([, flag = ""]) => flag);
  return [...flags, "nodejs_als"].flatMap((flag) => ["--compatibility-flag", flag]);
}

/** What the strict Worker is told. */
export function strictVars({ latency, quotas }: Strict): Record<string, string> {
  return {
    ...(latency !== undefined && { STRICT_LATENCY: String(latency) }),
    ...(quotas && { STRICT_QUOTAS: JSON.stringify(quotas) }),
  };
}
