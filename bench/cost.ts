/**
 * `npm run bench:cost`: the cost of delivering, in the units that Cloudflare bills and in dollars at list prices,
 * counted at every binding of the Worker while real traffic runs through the local stack. Exits non-zero when a budget
 * is exceeded. `-- short` counts on less traffic, `-- tenants outage` only these runs; `--save` saves the figures for
 * the pages, if all runs were counted.
 *
 * D1 reports its rows itself, as in production. CPU is that of the whole simulator with its database, so it is more
 * than a Worker would be billed for. How many deliveries share a batch depends on the traffic, and with it the cost of
 * a gate for each delivery.
 */
import { excesses } from "./cost/budget.ts";
import { keepLedger } from "./cost/ledger.ts";
import { costTable, idleLine, resultOf, resultsOf, row } from "./cost/report.ts";
import { runsOf } from "./cost/runs.ts";
import { benchArgs, save } from "./results.ts";

const args = benchArgs();
const size = args.words.includes("short") ? "short" : "full";
const named = args.words.filter((word) => word !== "short");
const runs = runsOf(size).filter(({ id }) => named.length === 0 || named.includes(id));
const ledger = await keepLedger(runs, (entry) => console.log(row(resultOf(entry))));
const results = resultsOf(ledger);
console.log(`\nUsed for each delivery:\n\n${costTable(results)}\n\n${idleLine(results.idle)}`);
if (args.save && named.length === 0) save("cost", results);

const over = ledger.entries.flatMap(excesses);
for (const excess of over) console.error(`OVER BUDGET  ${excess}`);
process.exit(over.length > 0 ? 1 : 0);
