/**
 * `npm run bench:growth`: does a delivery cost more when more is stored, when more waits, or when its tenant
 * has more destinations, and a drain more when more was delivered before? Counted by D1's own meters while real traffic runs through the local stack.
 * Exits non-zero when the dearest costs more than 1.1 times the cheapest. The time of each is printed too, and
 * judged by nobody: machines are noisy. `--save` keeps the figures for the pages.
 */
import { type MeteredStack, startMeteredStack } from "./cost/metered-stack.ts";
import { type Growth, grownBacklog, grownDestinations, grownPast, grownStore } from "./growth/queries.ts";
import { growthOf, report, resultsOf } from "./growth/report.ts";
import { benchArgs, save } from "./results.ts";

/** One after the other on a stack of their own. */
async function staged(...all: readonly ((stack: MeteredStack) => Promise<Growth>)[]): Promise<Growth[]> {
  const stack = await startMeteredStack();
  const tables: Growth[] = [];
  try {
    for (const grown of all) tables.push(await grown(stack));
  } finally {
    await stack.close();
  }
  return tables;
}

const tables = [
  ...(await staged(grownPast)),
  ...(await staged(grownStore, grownBacklog)),
  ...(await staged(grownDestinations)),
];
console.log(tables.map(report).join("\n\n"));
if (benchArgs().save) save("growth", resultsOf(tables));
process.exit(tables.every((table) => growthOf(table) <= 1.1) ? 0 : 1);
