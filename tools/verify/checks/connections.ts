/**
 * Receivers that do not answer: attempts that outlast the handler that made them, and hanging ones beside healthy
 * traffic.
 */

import type { Delivery } from "../../../client/src/api.ts";
import { arrived, type Check, type Run } from "../check.ts";
import type { VerifiedDestination } from "../deployment.ts";
import {
  type CheckResult,
  joinResults,
  judgeLatency,
  judgeOnce,
  msText,
  percentile,
  secondsText,
} from "../judge.ts";
import { arrivalMs } from "./delivery.ts";

const SLOW_MS = 20_000;

export const slow: Check = {
  name: "slow",
  expected: `an answer after ${SLOW_MS / 1000} s, long after the queue's batch, counts: delivered, one attempt`,
  usesReceiver: true,
  run: async (run) => {
    const replies = [{ status: 204, afterMs: SLOW_MS }];
    const target = await run.target("slow", { replies, timeout_ms: 25_000 });
    const [event] = await run.deployment.post(target.type, [{ n: 1 }], run.unique("slow"));
    const hits = await run.hitsOnce(target, arrived(1), SLOW_MS + 60_000);
    const id = event?.deliveries[0]?.id;
    let delivery: Delivery | undefined;
    await run.until(async () => {
      delivery = await run.deployment.call<Delivery>("GET", `/v1/deliveries/${id}`);
      return delivery.state === "delivered";
    }, 30_000);
    const { state = "unknown", attempts = 0 } = delivery ?? {};
    const tookMs = (hits[0]?.answeredAt ?? Number.NaN) - (hits[0]?.at ?? Number.NaN);
    return joinResults(judgeOnce(event ? [event.id] : [], hits), {
      ok: state === "delivered" && attempts === 1,
      seen: `answered after ${secondsText(tookMs)}, ${state}, ${attempts} ${attempts === 1 ? "attempt" : "attempts"}`,
    });
  },
};

/** More than an invocation's connections for attempts, so that the attempts of one message take all of them. */
const HANGING = 6;
const HANGS_MS = 15_000;
const HEALTHY = 20;
const WITHIN_MS = 15_000;

export const hanging: Check = {
  name: "hanging",
  expected: `beside ${HANGING} destinations that hang, others arrive within ${WITHIN_MS / 1000} s, D1 and gates are reached`,
  runsAlone: true,
  usesReceiver: true,
  run: async (run) => {
    const { deployment } = run;
    const healthy = await run.target("healthy");
    const hangs = { per: "request", replies: [{ status: 204, afterMs: HANGS_MS + 5_000 }] } as const;
    const destinations: VerifiedDestination[] = [];
    // Created one after the other: no creation may be under way after one has failed, when all are being removed.
    while (destinations.length < HANGING) {
      const { url } = await run.endpoint(`hanging-${destinations.length}`, hangs);
      destinations.push(await deployment.createDestination("hanging", url, { timeout_ms: HANGS_MS }));
    }
    // All of them take the type of the first.
    const [hung] = destinations;
    if (hung) await run.post(hung, 10, "hanging");
    const ids = destinations.map(({ id }) => id);
    const [{ events, answers }, recorded] = await Promise.all([
      postBeside(run, healthy),
      recordedInFlight(run, ids),
    ]);
    const hits = await run.hitsOnce(healthy, arrived(HEALTHY), 60_000);
    const slowest = percentile(answers, 1);
    // Deleted now, because their attempts would run beside the checks that follow.
    await Promise.all(ids.map((id) => deployment.deleteDestination(id)));
    return joinResults(
      judgeOnce(events, hits),
      judgeLatency("arrival", hits.map(arrivalMs), { p50Ms: WITHIN_MS / 3, p99Ms: WITHIN_MS }),
      { ok: slowest <= 5_000, seen: `health and gate answered within ${msText(slowest)}` },
      recorded,
    );
  },
};

/** Posts to a healthy destination; returns how long the health of the deployment and of the destination took each time. */
async function postBeside(run: Run, { id, type }: VerifiedDestination) {
  const { deployment } = run;
  const [events, answers]: [string[], number[]] = [[], []];
  for (let n = 0; n < HEALTHY; n++) {
    const { event } = await deployment.postOne(type, { n }, run.unique(`healthy-${n}`));
    events.push(event.id);
    const startedAt = performance.now();
    await Promise.all([deployment.health(), deployment.destinationHealth(id)]);
    answers.push(performance.now() - startedAt);
    await run.wait(250);
  }
  return { events, answers };
}

/**
 * Checks that the invocation whose connections all hang has recorded its attempts in D1: its calls to D1 did not wait
 * for a free connection.
 */
async function recordedInFlight(run: Run, destinations: readonly string[]): Promise<CheckResult> {
  const found = new Set<string>();
  const check = async () => {
    for (const id of destinations.filter((each) => !found.has(each))) {
      const path = `/v1/deliveries?destination_id=${id}&reason=in_flight&limit=1`;
      const { data } = await run.deployment.call<{ data: readonly unknown[] }>("GET", path);
      if (data.length > 0) found.add(id);
    }
    return found.size === destinations.length;
  };
  // Before the first of them can have timed out.
  const ok = await run.until(check, HANGS_MS * 0.8);
  return { ok, seen: `${found.size} of ${destinations.length} recorded as in flight meanwhile` };
}
