/**
 * `npm run soak -- --minutes 60 --seed 1 --rate 50`: see soak/run.ts. Prints how it goes, writes a report, and exits 1 when
 * anything was not as promised.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { type Progress, soak } from "./soak/run.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
    rate: { type: "string", default: "50" },
    report: { type: "string" },
    figures: { type: "string" },
  },
});

// The stack goes with this process, however it ends: see src/local/process-groups.ts.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));

/** Without a terminal a line every half a minute is enough. */
const QUIET_EVERY = 30;
let shown = 0;

function show({ elapsedMs, accepted, requests, open, inFlight, kills, deploys, violations, ...p }: Progress): void {
  const [minutes, seconds] = [Math.floor(elapsedMs / 60_000), Math.floor(elapsedMs / 1_000) % 60];
  const line = [
    `${minutes}:${String(seconds).padStart(2, "0")}`,
    `${accepted} events`,
    `${requests} requests`,
    `${open} not ended`,
    `${inFlight} in flight`,
    `${kills} kills`,
    `${deploys} deployments`,
    `${violations} violations`,
    `${Math.round(p.memoryBytes / 1e6)} MB`,
    p.doing,
  ].join("  ");
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}`);
  else if (shown++ % QUIET_EVERY === 0) console.log(line);
}

const figures = await soak({
  minutes: Number(values.minutes),
  seed: Number(values.seed),
  rate: Number(values.rate),
  onProgress: show,
});
if (values.figures) writeFileSync(values.figures, JSON.stringify(figures));
const { samples: _, delays: __, ...rest } = figures;
console.log(JSON.stringify(rest, null, 1));
process.exit(figures.findings.some(({ count }) => count > 0) ? 1 : 0);
