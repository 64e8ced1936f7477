/** Leases in use, in the gate's model: attempts start and end, and what has come of them is settled. */
import type { SettleRequest } from "../../src/core/settle.ts";
import type { Adder } from "./explorer.ts";
import { recorded, withMessage } from "./gate-deliveries.ts";
import { type Parts, signalOf } from "./gate-object.ts";
import { withDead } from "./gate-quiet.ts";
import { nameOf, runName, secondsOf } from "./gate-text.ts";
import {
  chainOf,
  HOLD_MS,
  type Item,
  type Run,
  TICK_MS,
  TIMEOUT_MS,
  type World,
  withoutRun,
  withRun,
} from "./gate-world.ts";

export function attemptSteps(world: World, i: number, run: Run, parts: Parts, add: Adder<World>): void {
  const next = run.items.find(({ state }) => state === "unsent");
  const chain = chainOf(world, run);
  // A connection continues with the next lease when it has nothing more to start under the one before.
  const isTurn = chain.find((one) => hasMore(world, one, parts)) === run;
  if (next && isTurn && sendingIn(chain) < run.slots)
    add(`${runName(run)} sends ${nameOf(next.delivery)}.`, started(world, i, run, next));
  for (const item of run.items) if (item.state === "sending") answers(world, i, run, item, add);
  if (sendingIn([run]) > 0 || hasMore(world, run, parts)) return;
  add(`${runName(run)} records what has come of it.`, recorded(world, i, run));
  if (world.delays > 0)
    add(
      `${runName(run)} is slow to record what has come of it.`,
      withRun(world, i, slow(run, "attempted", world.now)),
    );
}

export function slow(run: Run, phase: Run["phase"], now: number): Run {
  return { ...run, phase, slowUntil: now + TICK_MS };
}

/** Whether it may start another attempt, as soon as a connection is free. */
function hasMore({ now }: World, run: Run, parts: Parts): boolean {
  const { grant, grantedAt, readyAt, heldUntil, phase, items } = run;
  if (!grant || phase !== "ready" || heldUntil > now) return false;
  const until = parts.startsUntil(grant.grant, grantedAt, readyAt, TIMEOUT_MS);
  return now < until && items.some(({ state }) => state === "unsent");
}

function sendingIn(runs: readonly Run[]): number {
  return runs.flatMap(({ items }) => items.filter(({ state }) => state === "sending")).length;
}

function started(world: World, i: number, run: Run, item: Item): World {
  const sent = withItem(world, i, run, item, { state: "sending", startedAt: world.now });
  const wrong = wrongStart(world, run, item.delivery);
  return wrong === undefined ? sent : { ...sent, wrong };
}

function wrongStart({ deliveries, now }: World, run: Run, delivery: number): string | undefined {
  const name = nameOf(delivery);
  const { end } = deliveries[delivery] ?? {};
  if (end?.isInTime && run.grant?.knows.includes(end.lease))
    return `${name} is sent after its end was recorded under a lease that the gate knew of.`;
  if (run.grant?.over.includes(delivery)) return `${name} is sent after its end was settled with the gate.`;
  if (run.grant && run.grant.heldUntil > now)
    return `${name} is sent in a hold, under a lease that was granted in it.`;
  if (run.paused) return `${name} is sent although its invocation knew that the destination is paused.`;
  return undefined;
}

function answers(world: World, i: number, run: Run, item: Item, add: Adder<World>): void {
  const name = nameOf(item.delivery);
  add(`The receiver has taken ${name}.`, withItem(world, i, run, item, { state: "succeeded" }));
  if (world.failures > 0)
    add(
      `The attempt of ${name} fails.`,
      withItem({ ...world, failures: world.failures - 1 }, i, run, item, { state: "failed" }),
    );
  if (world.holds === 0) return;
  const holdUntil = world.now + HOLD_MS;
  const asked = withItem({ ...world, holds: world.holds - 1 }, i, run, item, {
    state: "succeeded",
    holdUntil,
  });
  const chain = chainOf(world, run);
  const runs = asked.runs.map((one, k) =>
    k === i || chain.includes(world.runs[k] ?? one) ? { ...one, heldUntil: holdUntil } : one,
  );
  add(`The receiver has taken ${name}, and requests a hold until ${secondsOf(holdUntil)}.`, {
    ...asked,
    runs,
    tells: [...asked.tells, holdUntil],
  });
}

function withItem(world: World, i: number, { items }: Run, item: Item, change: Partial<Item>): World {
  return withRun(world, i, { items: items.map((one) => (one === item ? { ...one, ...change } : one)) });
}

export function settleRequestOf({ items }: Run, lease: string): SettleRequest {
  const signals = items.flatMap(({ state, startedAt, holdUntil }) =>
    state === "unsent"
      ? []
      : [{ ...signalOf(startedAt, state === "succeeded"), ...(holdUntil !== undefined && { holdUntil }) }],
  );
  return { lease, signals, left: items.length - signals.length };
}

/** The message is acknowledged, or comes again for what is open. A drain that has found more continues. */
export function ended(world: World, i: number): World {
  const run = world.runs[i];
  if (!run) return world;
  const rest = withoutRun(world, i);
  const retries = run.items.filter(({ state }) => state === "failed").map(({ delivery }) => delivery);
  const named = new Set([...run.items.map(({ delivery }) => delivery), ...run.refused]);
  const held = run.lane === "backlog" ? [] : run.deliveries.filter((one) => !named.has(one));
  const withRetries = retries.length > 0 ? withMessage(rest, retries, world.now + TICK_MS) : rest;
  if (held.length > 0 && run.againAt !== undefined) return withMessage(withRetries, held, run.againAt);
  return withRetries;
}

/** With all its leases. Its requests may still be under way; its message comes again. */
export function died(world: World, run: Run): World {
  const chain = chainOf(world, run);
  const sending = chain.flatMap(({ items }) => items.filter(({ state }) => state === "sending"));
  const orphans = [...world.orphans, ...sending.map(({ startedAt }) => startedAt + TIMEOUT_MS)];
  const runs = world.runs.filter((one) => !chain.includes(one));
  const rest = withDead({ ...world, orphans, runs }, chain);
  return run.lane === "backlog"
    ? { ...rest, drains: rest.drains + 1 }
    : withMessage(rest, run.deliveries, world.now + TICK_MS);
}
