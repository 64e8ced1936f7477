/**
 * `npm run bench:growth`: does an event cost more when there is more of something? In counted units, by D1's own meters.
 *
 * Two benches: what is stored, waits or was delivered before grows while real traffic runs through the local stack; and
 * isolates, tenants, keys, destinations, databases, intake shards and idle time grow, each by itself, in a deployment
 * within one process (dimensions.ts). Names choose some: `npm run bench:growth -- tenants keys`; `stack` is the first
 * bench. Exits non-zero when the dearest of the first bench costs more than 1.1 times the cheapest. `--save` keeps the
 * figures for the pages; of the second bench those that were not run stay as they were.
 */
import { execFileSync } from "node:child_process";
import { type MeteredStack, startMeteredStack } from "./cost/metered-stack.ts";
import { DIMENSIONS } from "./growth/dimensions.ts";
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

async function onTheStack(isSaved: boolean): Promise<boolean> {
  const tables = [
    ...(await staged(grownPast)),
    ...(await staged(grownStore, grownBacklog)),
    ...(await staged(grownDestinations)),
  ];
  console.log(tables.map(report).join("\n\n"));
  if (isSaved) save("growth", resultsOf(tables), []);
  return tables.every((table) => growthOf(table) <= 1.1);
}

const STACK = "stack";
const { words, save: isSaved } = benchArgs();
const unknown = words.filter((word) => word !== STACK && !(word in DIMENSIONS));
if (unknown.length > 0) {
  console.error(
    `Not known: ${unknown.join(", ")}; expected ${[STACK, ...Object.keys(DIMENSIONS)].join(", ")}`,
  );
  process.exit(2);
}
const isWanted = (name: string) => words.length === 0 || words.includes(name);

const names = Object.keys(DIMENSIONS).filter(isWanted);
if (names.length > 0) {
  const place = import.meta.dirname;
  // In a process of its own, whose clock is virtual.
  const script = ["--import", `${place}/../test/support/in-node.ts`, `${place}/dimensions.ts`];
  execFileSync(process.execPath, [...script, ...names, ...(isSaved ? ["--save"] : [])], { stdio: "inherit" });
}
const isFlat = isWanted(STACK) ? await onTheStack(isSaved) : true;
process.exit(isFlat ? 0 : 1);
