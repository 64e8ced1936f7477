/** The deliveries of the gate's model in D1 and the queues, and the writes of invocations. */
import { type DeliverySource, readinessOf } from "../../src/core/triage.ts";
import { withSuccess } from "./gate-quiet.ts";
import { BEGINNING, type Run, type Stored, TICK_MS, type World, withRun } from "./gate-world.ts";

/** Messages of one delivery each are alike until they come for the first time: these come in order. */
export function isTurnOf(
  { deliveries, runs, messages }: World,
  [first = 0, ...others]: readonly number[],
): boolean {
  const isUntouched = (i: number) =>
    deliveries[i]?.state === "queued" &&
    !runs.some((run) => run.deliveries.includes(i)) &&
    messages.some((one) => one.at === BEGINNING && one.deliveries.length === 1 && one.deliveries[0] === i);
  if (others.length > 0 || !isUntouched(first)) return true;
  return !Array.from({ length: first }, (_, i) => i).some(isUntouched);
}

export function readiness({ deliveries, now }: World, i: number, source: DeliverySource) {
  const { state, at } = deliveries[i] ?? { state: "ended", at: 0 };
  const names = { queued: undefined, waiting: "waiting", retrying: "retrying", ended: "delivered" } as const;
  const progress = {
    state: names[state],
    nextAttemptAt: state === "retrying" ? at : null,
    isInFlight: false,
    giveUpAt: Number.POSITIVE_INFINITY,
    destinationDeleted: false,
    erased: false,
  };
  return readinessOf(progress, source, now).kind;
}

export function waitingIn({ deliveries }: World): number[] {
  return deliveries.flatMap(({ state }, i) => (state === "waiting" ? [i] : []));
}

export function withMessage(world: World, deliveries: readonly number[], at: number): World {
  return { ...world, messages: [...world.messages, { deliveries, at }] };
}

function withStored(world: World, i: number, stored: Partial<Stored>): World {
  return { ...world, deliveries: world.deliveries.map((one, k) => (k === i ? { ...one, ...stored } : one)) };
}

/** The outcomes are written as the database guards them: what has ended stays as it is. */
export function recorded(world: World, i: number, { items, refused, grant }: Run): World {
  let next = world;
  for (const { delivery, state } of items) {
    const { state: before, attempts = 0 } = next.deliveries[delivery] ?? {};
    if (before === "ended") continue;
    const isInTime = world.now < (grant?.expiresAt ?? 0);
    const end = { state: "ended", end: { lease: grant?.grant.id ?? "", isInTime } } as const;
    const retry = { state: "retrying", at: world.now + TICK_MS } as const;
    if (state === "succeeded")
      next = withSuccess(
        withStored(next, delivery, { ...end, attempts: attempts + 1 }),
        grant?.expiresAt ?? 0,
      );
    else if (state === "failed") next = withStored(next, delivery, { ...retry, attempts: attempts + 1 });
    else next = withStored(next, delivery, { state: "waiting" });
  }
  return withRun(markWaiting(next, refused), i, { phase: "recorded", slowUntil: 0 });
}

/** The gate that may write has been notified of what was recorded under this lease. */
export function withSettledEnds(world: World, lease: string): World {
  const deliveries = world.deliveries.map((one) =>
    one.end?.lease === lease && one.end.isInTime
      ? { ...one, end: { ...one.end, isSettled: true as const } }
      : one,
  );
  return { ...world, deliveries };
}

/** Refused without a lease: it waits in D1, unless it has ended. */
export function afterRefusal(
  world: World,
  run: Run,
  refused: readonly number[],
  againAt: number | undefined,
): World {
  const next = markWaiting(world, refused);
  const held = run.deliveries.filter((i) => !refused.includes(i));
  return againAt !== undefined && run.lane !== "backlog" ? withMessage(next, held, againAt) : next;
}

function markWaiting(world: World, refused: readonly number[]): World {
  return refused
    .filter((delivery) => world.deliveries[delivery]?.state !== "ended")
    .reduce((next, delivery) => withStored(next, delivery, { state: "waiting" }), world);
}

/** Deliveries that the sweep finds lost wait from now on. */
export function withLostFound(world: World): World {
  const isHeld = (i: number) =>
    world.runs.some(({ deliveries }) => deliveries.includes(i)) ||
    world.messages.some(({ deliveries }) => deliveries.includes(i));
  const isLost = ({ state, at }: Stored, i: number) =>
    (state === "queued" || (state === "retrying" && at <= world.now)) && !isHeld(i);
  const deliveries = world.deliveries.map(
    (stored, i): Stored => (isLost(stored, i) ? { ...stored, state: "waiting" } : stored),
  );
  return { ...world, deliveries };
}
