/** Receivers in trouble, and how Breakwater spares them: retries, holds, the circuit, the limit of concurrency. */

import type { DestinationHealth } from "../../../client/src/api.ts";
import { arrived, type Check } from "../check.ts";
import type { DeploymentUnderTest } from "../deployment.ts";
import {
  arrivalsOf,
  failedProbes,
  joinResults,
  judgeConcurrency,
  judgeHold,
  judgeOnce,
  judgeProbes,
  judgeRetries,
  secondsText,
} from "../judge.ts";

/** A circuit that only the check of circuits opens. */
const unbreakable = { min_attempts: 1_000 };

const SCHEDULE_S = 4;
const SPREAD = 0.25;
/** Delays of queues are whole seconds, and a retry begins when the batch of its message is over. */
const LATE_MS = 10_000;

export const retry: Check = {
  name: "retry",
  expected: `after a 503 the same bytes again, 3 to 5 s later by the schedule, and ${LATE_MS / 1000} s late at most`,
  usesReceiver: true,
  run: async (run) => {
    const target = await run.target("retry", {
      ...{ per: "event", replies: [{ status: 503 }, { status: 204 }] },
      retry: { schedule: [SCHEDULE_S], jitter: { proportional: SPREAD } },
      breaker: unbreakable,
    });
    const events = await run.post(target, 3, "retry");
    const hits = await run.hitsOnce(target, arrived(3), 60_000);
    return judgeRetries(events, hits, {
      fromMs: SCHEDULE_S * (1 - SPREAD) * 1_000,
      toMs: SCHEDULE_S * (1 + SPREAD) * 1_000 + LATE_MS,
    });
  },
};

const HOLD_S = 10;

export const hold: Check = {
  name: "hold",
  expected: `Retry-After: ${HOLD_S} stops all requests for ${HOLD_S} s; then all arrive`,
  usesReceiver: true,
  run: async (run) => {
    const quiet = { status: 503, headers: { "retry-after": String(HOLD_S) } };
    const target = await run.target("hold", {
      replies: [quiet, { status: 204 }],
      retry: { schedule: [1], jitter: "none" },
      breaker: unbreakable,
    });
    const first = await run.post(target, 1, "hold-first");
    await run.hitsOnce(target, ([hit]) => hit?.status === 503, 60_000);
    const isHeld = async () => (await run.deployment.destinationHealth(target.id)).held_until !== null;
    const held = await run.until(isHeld, 5_000);
    const events = [...first, ...(await run.post(target, 20, "hold-rest"))];
    const hits = await run.hitsOnce(target, arrived(events.length), HOLD_S * 1_000 + 60_000);
    const result = judgeHold(events, hits, { holdMs: HOLD_S * 1_000, withinMs: 20_000 });
    return joinResults({ ok: held, seen: held ? "held" : "the API shows no hold" }, result);
  },
};

const COOLDOWN_S = 4;
const EVENTS = 12;

export const circuit: Check = {
  name: "circuit",
  expected: `failures open it, then one probe every ${COOLDOWN_S} s at most, a success closes it, all arrive`,
  usesReceiver: true,
  run: async (run) => {
    const { deployment } = run;
    const target = await run.target("circuit", {
      replies: [{ status: 500 }],
      retry: { schedule: [1], jitter: "none", max_attempts: 100 },
      max_concurrency: 2,
      breaker: { min_attempts: 3, failure_ratio: 0.5, cooldown_s: COOLDOWN_S, max_cooldown_s: COOLDOWN_S },
    });
    const { id } = target;
    const events = await run.post(target, EVENTS, "circuit");
    let openAt: number | undefined;
    const opens = async () => {
      openAt = openedAt(await deployment.destinationHealth(id));
      return openAt !== undefined;
    };
    if (!(await run.until(opens, 60_000)) || openAt === undefined)
      return { ok: false, seen: `${await stateOf(deployment, id)} after 60 s of failures` };
    // Waits long enough for two probes, which fail, and until one has arrived.
    const from = openAt;
    await run.wait(COOLDOWN_S * 2.6 * 1_000);
    await run.hitsOnce(target, (hits) => failedProbes(hits, from).length > 0, 60_000);
    await target.setScript({ per: "request", replies: [{ status: 204 }] });
    const isClosed = async () => (await deployment.destinationHealth(id)).circuit === "closed";
    const closed = await run.until(isClosed, 60_000);
    const hits = await run.hitsOnce(target, arrived(events.length), 90_000);
    const to = hits.find(({ status }) => status === 204)?.at;
    if (!closed || to === undefined)
      return { ok: false, seen: `${await stateOf(deployment, id)} 60 s after the receiver's recovery` };
    const { arrived: count, lost } = arrivalsOf(events, hits);
    const lastAt = Math.max(...hits.map(({ at }) => at));
    return joinResults(judgeProbes(hits, { openedAt: from, closedAt: to, cooldownMs: COOLDOWN_S * 1_000 }), {
      ok: lost === 0,
      seen: `closed, ${count} of ${events.length} arrived ${secondsText(lastAt - to)} later`,
    });
  },
};

/** When the circuit opened for the first time. */
function openedAt({ transitions }: DestinationHealth): number | undefined {
  const opening = transitions.find(({ kind }) => kind === "circuit_opened");
  return opening && Date.parse(opening.at);
}

async function stateOf(deployment: DeploymentUnderTest, id: string): Promise<string> {
  return `the circuit is ${(await deployment.destinationHealth(id)).circuit}`;
}

const MAX_CONCURRENCY = 5;
const LOAD = 150;

export const concurrency: Check = {
  name: "concurrency",
  expected: `with ${LOAD} events waiting, 2 to ${MAX_CONCURRENCY} at once by the receiver's count; each arrives once`,
  usesReceiver: true,
  run: async (run) => {
    const target = await run.target("concurrency", {
      replies: [{ status: 204, afterMs: 200 }],
      max_concurrency: MAX_CONCURRENCY,
      rate_per_second: 1_000,
      rate_burst: 1_000,
    });
    const events = await run.post(target, LOAD, "concurrency");
    const hits = await run.hitsOnce(target, arrived(LOAD), 120_000);
    return joinResults(judgeConcurrency(hits, MAX_CONCURRENCY), judgeOnce(events, hits));
  },
};
