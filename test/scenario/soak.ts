/**
 * `npm run soak -- --minutes 60 --seed 1 --rate 50 --tenants 1000 --databases 10 --isolates 3`: see soak/run.ts. Prints its
 * progress, writes a report, and exits 1 if a promise was broken.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { projectRoot } from "../../tools/wrangler.ts";
import { picture } from "./soak/picture.ts";
import { report } from "./soak/report.ts";
import { soak } from "./soak/run.ts";
import type { Progress } from "./soak/world.ts";
import { FORMER } from "./versions.ts";

const PICTURE = ".github/pictures/soak.svg";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
    rate: { type: "string", default: "50" },
    tenants: { type: "string", default: "1000" },
    databases: { type: "string", default: "10" },
    isolates: { type: "string", default: "3" },
    report: { type: "string" },
    figures: { type: "string" },
  },
});

// The stack ends with this process, however it ends: see tools/process-groups.ts.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));

/** Without a terminal a line every half a minute is enough. */
const QUIET_EVERY = 30;
let shown = 0;

function show({
  elapsedMs,
  accepted,
  requests,
  open,
  inFlight,
  kills,
  deploys,
  violations,
  ...p
}: Progress): void {
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

const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], {
  cwd: projectRoot,
  encoding: "utf8",
}).trim();
const [loadBefore = 0] = loadavg();
const figures = await soak({
  minutes: Number(values.minutes),
  seed: Number(values.seed),
  rate: Number(values.rate),
  size: {
    tenants: Number(values.tenants),
    databases: Number(values.databases),
    isolates: Number(values.isolates),
  },
  onProgress: show,
  onViolation: (check, text) => console.log(`\nviolation: ${check}: ${text}`),
});
const violations = figures.findings.reduce((sum, { count }) => sum + count, 0);
const circumstances = { commit, former: FORMER.slice(0, 7), load: [loadBefore, loadavg()[0] ?? 0] } as const;
if (values.figures) writeFileSync(values.figures, JSON.stringify({ figures, circumstances }));
if (values.report) {
  writeFileSync(join(projectRoot, PICTURE), picture(figures));
  const at = relative(dirname(resolve(values.report)), join(projectRoot, PICTURE));
  writeReport(values.report, report(figures, { ...circumstances, picture: at }));
} else console.log(`\n\n${report(figures, { ...circumstances, picture: PICTURE })}`);
console.log(`\n${figures.counts.accepted} events accepted, ${violations} violations`);
process.exit(violations > 0 ? 1 : 0);

/** Replaces the report in the page, and leaves what is before it. */
function writeReport(file: string, text: string): void {
  const page = existsSync(file) ? readFileSync(file, "utf8") : "# Soak\n\n";
  const [before = ""] = page.split("## Report");
  writeFileSync(file, before + text);
}
