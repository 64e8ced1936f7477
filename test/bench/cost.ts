/**
 * `npm run bench:cost`: what delivering costs, in the units that Cloudflare bills and in dollars at list
 * prices, counted at every binding of the Worker while real traffic runs through the local stack. Exits
 * non-zero when a budget is exceeded. `-- short` counts on less traffic.
 *
 * Rows of D1 are its own figures, and the same in production. CPU is that of the whole simulator with its
 * database, so more than a Worker would be billed for. How many deliveries share a batch depends on the
 * traffic, and with it what a gate costs for each: the last row is the dearest there is.
 */
import { excesses } from "./cost/budget.ts";
import { keepLedger } from "./cost/ledger.ts";
import { report, row } from "./cost/report.ts";

const size = process.argv[2] === "short" ? "short" : "full";
const ledger = await keepLedger(size, (entry) => console.log(row(entry)));
console.log(`\n${report(ledger)}`);

const over = ledger.entries.flatMap(excesses);
for (const excess of over) console.error(`OVER BUDGET  ${excess}`);
process.exit(over.length > 0 ? 1 : 0);
