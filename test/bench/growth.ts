/**
 * `npm run bench:growth`: does a delivery cost more when more is stored, or when more waits? Counted by D1's
 * own meters while real traffic runs through the local stack. Exits non-zero when the dearest costs more
 * than 1.1 times the cheapest. The time of each is printed too, and judged by nobody: machines are noisy.
 */
import { openStage } from "./cost/stage.ts";
import { grownBacklog, grownStore } from "./growth/growths.ts";
import { growthOf, report } from "./growth/report.ts";

const stage = await openStage();
try {
  const tables = [await grownStore(stage), await grownBacklog(stage)];
  console.log(tables.map(report).join("\n\n"));
  process.exitCode = tables.every((table) => growthOf(table) <= 1.1) ? 0 : 1;
} finally {
  await stage.close();
}
process.exit();
