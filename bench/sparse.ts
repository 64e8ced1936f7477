/**
 * `npm run bench:sparse`: the cost of infrequent deliveries, in units and dollars; bench:cost counts frequent ones.
 * Time is virtual, so that a minute between two events takes no real time. `-- every-4 cold` counts only these runs;
 * `--save` saves the figures for the pages, if all runs were counted.
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
