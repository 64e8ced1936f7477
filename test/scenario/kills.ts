/**
 * `npm run test:kill -- --kills 50 --seed 1`: the figures of a run with many kills; `--save` saves them for the pages. Exits
 * 1 on a loss, on a duplicate without a cause, and on more duplicates than can have been in flight.
 */
import { parseArgs } from "node:util";
import { save } from "../../bench/results.ts";
import { IN_FLIGHT } from "./kill-report.ts";
import { surviveKills } from "./survive-kills.ts";

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "50" },
    seed: { type: "string", default: "1" },
    save: { type: "boolean", default: false },
  },
});

// The stack ends with this process, however it ends: see tools/process-groups.ts.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));

const startedAt = Date.now();
const figures = await surviveKills({
  kills: Number(values.kills),
  seed: Number(values.seed),
  log: console.log,
});
const repeats = figures.repeatsAfterKill.reduce((sum, count) => sum + count, 0);
const most = Math.max(0, ...figures.repeatsAfterKill);
const pairs = figures.repeatsAfterKill.map((count, i) => `${count}/${figures.inFlightAtKill[i]}`);
const seconds = Math.round((Date.now() - startedAt) / 1000);

console.log(`
accepted     ${figures.accepted} events, and ${figures.unanswered} whose answer was lost with the stack
deliveries   ${figures.deliveries}, with ${figures.failed} failed requests among them
lost         ${figures.lost}
duplicates   ${repeats}  at most ${most} for one kill, of ${IN_FLIGHT} that can be in flight: taken, and not recorded yet
             by kill, of those taken shortly before it: ${pairs.join(" ")}
             ${figures.timedOut}  answered after the sender's timeout
unexplained  ${figures.unexplained}  duplicates without such a cause
took         ${seconds} s`);

if (values.save) {
  save("kills", {
    kills: Number(values.kills),
    seed: Number(values.seed),
    seconds,
    accepted: figures.accepted,
    unanswered: figures.unanswered,
    deliveries: figures.deliveries,
    lost: figures.lost,
    duplicates: repeats,
    mostForOneKill: most,
    inFlight: IN_FLIGHT,
    unexplained: figures.unexplained,
  });
}

process.exitCode = figures.lost + figures.unexplained > 0 || most > IN_FLIGHT ? 1 : 0;
