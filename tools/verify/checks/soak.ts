/** A steady rate for as long as the owner wants: how much is lost, how much arrives twice, how long it takes. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Check, CheckTarget, Run } from "../check.ts";
import { arrivalsOf, judgeLatency, msText, percentile } from "../judge.ts";
import { arrivalMs } from "./delivery.ts";

const PROGRESS_MS = 30_000;
/** How long the last of the events may take. */
const LAST_MS = 300_000;

export const soak: Check = {
  name: "soak",
  expected: "a steady rate: every accepted event arrives; p50 ≤ 3 s, p99 ≤ 30 s",
  runsAlone: true,
  usesReceiver: true,
  run: async (run) => {
    const { soakMs, soakRate } = run.options;
    if (soakMs === undefined) return { skipped: "runs with --soak 10m" };
    const target = await run.target("soak");
    const { events, accepts, failed } = await postSteadily(run, target, { soakMs, soakRate });
    await run.until(async () => arrivalsOf(events, await target.hits()).lost === 0, LAST_MS, 2_000);
    const hits = await target.hits();
    const { lost, duplicates } = arrivalsOf(events, hits);
    const arrival = judgeLatency("arrival", hits.map(arrivalMs), { p50Ms: 3_000, p99Ms: 30_000 });
    const counts = `${events.length} accepted, ${failed} not accepted, ${lost} lost, ${duplicates} duplicates`;
    return {
      ok: events.length > 0 && lost === 0 && failed === 0 && arrival.ok,
      seen: `${counts}; accept p99 ${msText(percentile(accepts, 0.99))}; ${arrival.seen}`,
    };
  },
};

type Posted = { readonly events: string[]; readonly accepts: number[]; failed: number };

/** Posts each event when it is due, whatever the result of those before it. */
async function postSteadily(
  run: Run,
  target: CheckTarget,
  { soakMs, soakRate }: Readonly<{ soakMs: number; soakRate: number }>,
): Promise<Posted> {
  const posted: Posted = { events: [], accepts: [], failed: 0 };
  const startedAt = Date.now();
  const underWay = new Set<Promise<void>>();
  let shownAt = startedAt;
  for (let n = 0; n * (1_000 / soakRate) < soakMs; n++) {
    const post = run.deployment.postOne(target.type, { n }, run.unique(`soak-${n}`)).then(
      ({ event, tookMs }) => {
        posted.events.push(event.id);
        posted.accepts.push(tookMs);
      },
      () => {
        posted.failed += 1;
      },
    );
    underWay.add(post);
    void post.then(() => underWay.delete(post));
    await sleep(Math.max(0, startedAt + (n + 1) * (1_000 / soakRate) - Date.now()));
    run.throwIfInterrupted();
    if (Date.now() - shownAt < PROGRESS_MS) continue;
    shownAt = Date.now();
    const { lost, duplicates } = arrivalsOf(posted.events, await target.hits());
    const minutes = ((shownAt - startedAt) / 60_000).toFixed(1);
    run.note(
      `soak: ${minutes} min, ${posted.events.length} accepted, ${lost} under way, ${duplicates} duplicates`,
    );
  }
  await Promise.all(underWay);
  return posted;
}
