/**
 * `npm run bench:growth`: does an event cost more when there is more of something? Counts units, with D1's own meters.
 *
 * There are two benches. In the first, stored, waiting or formerly delivered events grow while real traffic runs
 * through the local stack. In the second, isolates, tenants, keys, destinations, databases, intake shards and idle time
 * grow, one at a time, in a deployment within one process (dimensions.ts). Names choose some: `npm run bench:growth --
 * tenants keys`; `stack` is the first bench, and `stack-past` a part of it. Exits non-zero when the most expensive step
 * of the first bench costs more than 1.1 times the cheapest. `--save` saves the figures for the pages; what is not run
 * keeps its saved figures.
 */
import { execFileSync } from "node:child_process";
import { type MeteredStack, startMeteredStack } from "./cost/metered-stack.ts";
import { DIMENSIONS } from "./growth/dimensions.ts";
import { type Growth, grownBacklog, grownDestinations, grownPast, grownStore } from "./growth/queries.ts";
import { growthOf, report, resultsOf } from "./growth/report.ts";
import { benchArgs, type GrowthResults, save, saved } from "./results.ts";

/** The parts of the first bench, by the words that choose them. */
const STACK: Readonly<Record<string, (stack: MeteredStack) => Promise<Growth>>> = {
  "stack-past": grownPast,
  "stack-stored": grownStore,
  "stack-waiting": grownBacklog,
  "stack-destinations": grownDestinations,
};

async function staged(grown: (stack: MeteredStack) => Promise<Growth>): Promise<Growth> {
  const stack = await startMeteredStack();
  try {
    return await grown(stack);
  } finally {
    await stack.close();
  }
}

const { words, save: isSaved } = benchArgs();
const unknown = words.filter((word) => word !== "stack" && !(word in STACK) && !(word in DIMENSIONS));
if (unknown.length > 0) {
  const known = ["stack", ...Object.keys(STACK), ...Object.keys(DIMENSIONS)];
  console.error(`Unknown: ${unknown.join(", ")}; expected ${known.join(", ")}`);
  process.exit(2);
}
const isWanted = (name: string) => words.length === 0 || words.includes(name);

const names = Object.keys(DIMENSIONS).filter(isWanted);
if (names.length > 0) {
  const place = import.meta.dirname;
  // Runs in a separate process, because its clock is virtual.
  const script = ["--import", `${place}/../test/support/in-node.ts`, `${place}/dimensions.ts`];
  execFileSync(process.execPath, [...script, ...names, ...(isSaved ? ["--save"] : [])], { stdio: "inherit" });
}
const tables: Growth[] = [];
for (const [name, grown] of Object.entries(STACK)) {
  if (!isWanted(name) && !words.includes("stack")) continue;
  tables.push(await staged(grown));
  // Saves after each part, so that an interruption loses at most one.
  if (isSaved) save("growth", withSaved(resultsOf(tables)), []);
}
console.log(tables.map(report).join("\n\n"));
process.exit(tables.every((table) => growthOf(table) <= 1.1) ? 0 : 1);

/** Adds the saved results of the parts that were not run. */
function withSaved({ tables: run }: GrowthResults): GrowthResults {
  return { tables: saved("growth").tables.map((before) => run.find(({ id }) => id === before.id) ?? before) };
}
