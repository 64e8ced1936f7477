/**
 * `npm run bench:sparse`: what deliveries cost that come seldom, in units and dollars; bench:cost counts those that come in
 * numbers. In virtual time, so that a minute between two events takes none. `-- every-4 cold` counts these alone; `--save`
 * keeps the figures for the pages, and all of them must be there.
 */
import { costTable } from "./cost/report.ts";
import { SPARSE, sparseEntry } from "./dimensions/sparse.ts";
import { benchArgs, type CostEntry, save } from "./results.ts";

const { words, save: isSaved } = benchArgs();
const entries: CostEntry[] = [];
for (const run of SPARSE.filter(({ id }) => words.length === 0 || words.includes(id))) {
  entries.push(await sparseEntry(run));
  console.log(`${run.name} done`);
}
console.log(`\nUsed for each delivery:\n\n${costTable({ entries })}`);
if (isSaved && words.length === 0) save("sparse", { entries });
process.exit(0);
