/**
 * `npm run bench:cost`: what delivering costs, in the units that Cloudflare bills and in dollars at list
 * prices, counted at every binding of the Worker while real traffic runs through the local stack. Exits
 * non-zero when a budget is exceeded. `-- short` counts on less traffic,
 * `-- tenants outage` on these runs alone; `--save` keeps the figures for the pages, and all of them must be there.
 *
 * Rows of D1 are its own figures, and the same in production. CPU is that of the whole simulator with its
 * database, so more than a Worker would be billed for. How many deliveries share a batch depends on the
 * traffic, and with it what a gate costs for each: the last row is the dearest there is.
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
