/**
 * `npm run test:upgrade -- --from v0.2.0 --seconds 60`: an upgrade from that commit to the working tree and back, each
 * phase for so long. Exits 1 on a loss, on a duplicate without a cause, and when a version misread what the other wrote.
 */
import { parseArgs } from "node:util";
import { surviveUpgrade } from "./survive-upgrade.ts";
import { FORMER } from "./versions.ts";

const { values } = parseArgs({
  options: {
    from: { type: "string", default: FORMER },
    seconds: { type: "string", default: "30" },
    seed: { type: "string", default: "1" },
  },
});

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));

const startedAt = Date.now();
const report = await surviveUpgrade({
  from: values.from,
  phaseMs: Number(values.seconds) * 1000,
  seed: Number(values.seed),
  log: console.log,
});
const repeats = report.repeatsAfterKill.reduce((sum, count) => sum + count, 0);

console.log(`
migrations   ${report.migrations.join(", ") || "none besides columns and a table that no version knows"}
accepted     ${report.accepted} events, and ${report.unanswered} without an answer
deliveries   ${report.deliveries}, with ${report.failed} failed requests among them
lost         ${report.lost}
duplicates   ${repeats}  taken shortly before a restart, and not recorded yet
             ${report.timedOut}  answered after the sender's timeout
unexplained  ${report.unexplained}  duplicates without such a cause
misread      ${report.misreadings.length}  lines of a version that could not use what the other had written
logged       ${[...report.logged].map(([kind, count]) => `${kind} ${count}`).join(", ")}
took         ${Math.round((Date.now() - startedAt) / 1000)} s`);
for (const line of report.misreadings.slice(0, 10)) console.log(line);

process.exit(report.lost + report.unexplained + report.misreadings.length > 0 ? 1 : 0);
