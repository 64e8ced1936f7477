/** `node test/scenario/kills.ts --kills 20 --seed 1`: the figures of a run with many kills. Exits 1 on a loss. */
import { parseArgs } from "node:util";
import { surviveKills } from "./survive-kills.ts";

const { values } = parseArgs({
  options: { kills: { type: "string", default: "20" }, seed: { type: "string", default: "1" } },
});

// The stack goes with this process, however it ends: see src/local/wrangler.ts.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));

const startedAt = Date.now();
const figures = await surviveKills({
  kills: Number(values.kills),
  seed: Number(values.seed),
  say: console.log,
});
const repeats = figures.repeatsAfterKill.reduce((sum, count) => sum + count, 0);
const most = Math.max(0, ...figures.repeatsAfterKill);

console.log(`
accepted     ${figures.accepted}
lost         ${figures.lost}
unheard      ${figures.unheard}  accepted and delivered, though the answer died with the stack
duplicates   ${repeats}  at most ${most} for one kill: delivered, and killed before that was recorded
             by kill: ${figures.repeatsAfterKill.join(" ")}
unexplained  ${figures.unexplained}  duplicates without a kill in between
took         ${Math.round((Date.now() - startedAt) / 1000)} s`);

process.exitCode = figures.lost + figures.unexplained > 0 ? 1 : 0;
