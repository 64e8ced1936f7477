/**
 * The lives of one gate's object: instances that follow or cut off one another over one storage, through random
 * histories of admit requests, settlements, evictions and changed limits.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { type AdmitRequest, admit } from "../../src/core/admit.ts";
import type { AttemptSignal } from "../../src/core/destination-state.ts";
import type { GateState } from "../../src/core/gate-state.ts";
import { type Grant, slotsOf } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { settle } from "../../src/core/settle.ts";
import {
  afterAlarm,
  afterDecision,
  type GateMemory,
  type GateStep,
  restored,
  SPARSE_BEHIND_MS,
} from "../../src/core/write-behind.ts";
import { start, steady, trusted } from "./gate-arbitraries.ts";

export const fast: GateSettings = { ...steady, ratePerSecond: 10_000, rateBurst: 10_000 };

export function fine(at: number): AttemptSignal {
  const metric = { attempt: 1, result: "2xx", end: "delivered", tookMs: 5, lateMs: 5 } as const;
  return { at, health: "healthy", backsOff: false, tookMs: 5, metric };
}
export const failed = (at: number): AttemptSignal => ({ at, health: "unhealthy", backsOff: true });

/** An instance of the object: whether it may still write, and its memory. */
type Instance = { isCurrent: boolean; memory: GateMemory | undefined };

/** One object's storage and the instances that work on it: a newer one cuts the older ones off from writing. */
export function gateObject(beginning?: GateState) {
  let stored = beginning;
  let alarmAt: number | null = null;
  let rows = 0;
  let now = start;
  const newest = () => instances.at(-1) as Instance;
  /** Reads the state as storage has it; it is serialized only when it is read. */
  const read = () => stored && (JSON.parse(JSON.stringify(stored)) as GateState);
  const load = () => restored(read(), now);
  const instances: Instance[] = [{ isCurrent: true, memory: load() }];

  /** Undefined when the instance could not write, and has ended: its callers get no answer. */
  function keep<T extends GateStep>(instance: Instance, step: T): T | undefined {
    if ((step.writes || step.alarm !== undefined) && !instance.isCurrent) {
      instance.memory = undefined;
      return undefined;
    }
    if (step.writes) stored = step.memory.state;
    if (step.alarm !== undefined) alarmAt = step.alarm;
    rows += (step.writes ? 1 : 0) + (step.alarm === undefined ? 0 : 1);
    instance.memory = step.memory;
    return step;
  }

  function call<T extends { state: GateState }>(decide: (state: GateState) => T, instance = newest()) {
    if (!instance.memory) return undefined;
    const decision = decide(instance.memory.state);
    return keep(instance, afterDecision(instance.memory, decision.state, now)) && decision;
  }

  return {
    call,
    newest,
    instances,
    now: () => now,
    rows: () => rows,
    alarmAt: () => alarmAt,
    stored: read,
    pass: (ms: number): number => {
      now += ms;
      return ms;
    },
    /** Begins a new instance, and cuts off the one before without its knowing. */
    begin: () => {
      newest().isCurrent = false;
      instances.push({ isCurrent: true, memory: load() });
    },
    /** Ends the instance with its memory, and begins another. */
    evict: () => {
      newest().isCurrent = false;
      newest().memory = undefined;
      instances.push({ isCurrent: true, memory: load() });
    },
    alarm: () => {
      if (alarmAt === null || alarmAt > now) return;
      alarmAt = null;
      const { memory } = newest();
      if (memory) keep(newest(), afterAlarm(memory, now));
    },
    admit: (ask: Partial<AdmitRequest>, settings = fast, instance = newest()) => {
      const whole: AdmitRequest = {
        lane: "fresh",
        deliveries: [1],
        connections: 6,
        startWithinMs: 5_000,
        ...ask,
      };
      return call((state) => admit(state, whole, settings, now), instance)?.result;
    },
    settle: (
      lease: string,
      signals: readonly AttemptSignal[],
      settings = fast,
      instance = newest(),
      left = 0,
    ) => call((state) => settle(state, { lease, signals, left }, settings, now, 0.5), instance),
  };
}

export type GateObject = ReturnType<typeof gateObject>;

type Ticket = Grant & { by: Instance; until: number; isOver: boolean };

const caps = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom(1, 2, 3) },
  { weight: 5, arbitrary: fc.integer({ min: 4, max: 12 }) },
);
/** True once in `once` times. */
const rarely = (once: number) => fc.nat(once - 1).map((n) => n === 0);
/** The actions of an instance, and the faults that may happen to it. Requests come several at a time, as traffic does. */
const doing = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("ask" as const),
      times: fc.integer({ min: 1, max: 6 }),
      old: rarely(3),
      lane: rarely(20).map((is) => (is ? ("backlog" as const) : ("fresh" as const))),
      first: rarely(8).chain((is) => (is ? fc.nat(20) : fc.nat(5_000))),
      count: fc.constantFrom(1, 1, 1, 2, 3),
      startWithinMs: fc.constantFrom(500, 5_000, 5_000),
      unanswered: rarely(20),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      times: fc.integer({ min: 1, max: 8 }),
      old: rarely(3),
      back: fc.nat(3),
      fails: rarely(60),
      left: rarely(40).map((is) => (is ? 1 : 0)),
    }),
  },
  {
    weight: 3,
    arbitrary: fc
      .oneof(fc.nat(50), fc.nat(50), fc.nat(2_000), fc.nat(2_000), fc.nat(12_000), fc.nat(40_000))
      .map((ms) => ({ do: "wait" as const, ms })),
  },
  {
    weight: 3,
    arbitrary: fc
      .constantFrom("evict" as const, "begin" as const, "begin" as const, "alarm" as const)
      .map((what) => ({ do: what })),
  },
  {
    weight: 1,
    arbitrary: rarely(2)
      .chain((is) => (is ? caps : fc.constant(0)))
      .map((cap) => ({ do: "limit" as const, cap })),
  },
);

/** Plays a history over several instances; `check` sees each grant that has reached its caller. */
export function play(
  opening: number,
  steps: readonly (typeof doing extends fc.Arbitrary<infer S> ? S : never)[],
  check: (granted: Ticket, others: readonly Ticket[], capOf: (ms: number) => number) => void,
): void {
  const gate = gateObject({ ...trusted(20), maxConcurrency: opening });
  const tickets: Ticket[] = [];
  const limits = [{ cap: opening, from: start }];
  const capNow = () => limits.at(-1)?.cap ?? opening;
  /** The highest limit within the last `ms`. */
  const capOf = (ms: number) =>
    Math.max(
      ...limits
        .filter((_, i) => (limits[i + 1]?.from ?? gate.now() + 1) > gate.now() - ms)
        .map(({ cap }) => cap),
      capNow(),
    );
  const instanceFor = (old: boolean) => (old ? (gate.instances.at(-2) ?? gate.newest()) : gate.newest());

  for (const step of steps) {
    const settings = { ...fast, maxConcurrency: capNow(), timeoutMs: 5_000 };
    if (step.do === "wait") gate.pass(step.ms);
    if (step.do === "evict") gate.evict();
    if (step.do === "begin") gate.begin();
    if (step.do === "alarm") gate.alarm();
    if (step.do === "limit" && step.cap > 0) limits.push({ cap: step.cap, from: gate.now() });
    if (step.do === "settle") {
      const { times, old, back, fails, left } = step;
      const open = tickets.filter(({ isOver }) => !isOver);
      for (const ticket of open.slice(Math.max(0, open.length - back - times), open.length - back)) {
        ticket.isOver = true;
        const signal = fails ? failed(gate.now()) : fine(gate.now());
        const signals = ticket.deliveries.map(() => signal);
        gate.settle(ticket.id, signals, settings, instanceFor(old), left);
      }
    }
    if (step.do !== "ask") continue;
    const { times, lane, first, count, startWithinMs, old, unanswered } = step;
    for (let i = 0; i < times; i++) {
      const deliveries = Array.from({ length: count }, (_, n) => first + i * count + n);
      const by = instanceFor(old);
      const grant = gate.admit({ lane, deliveries, startWithinMs }, settings, by)?.grant;
      if (!grant) break;
      if (unanswered) continue;
      const others = tickets.filter(({ isOver, until }) => !isOver && until > gate.now());
      const ticket = { ...grant, by, until: gate.now() + grant.expiresInMs, isOver: false };
      tickets.push(ticket);
      check(ticket, others, capOf);
    }
  }
}

export const life = fc.tuple(caps, fc.array(doing, { minLength: 20, maxLength: 120, size: "max" }));

/** Checks in `numRuns` lives that the slots in flight never exceed the limit. */
export function checkSlots(numRuns: number): void {
  let unstored = 0;
  fc.assert(
    fc.property(life, ([cap, steps]) => {
      play(cap, steps, (granted, others, capOf) => {
        if (!granted.by.isCurrent) unstored += 1;
        // An instance that is cut off does not learn of a limit that is raised, and lowered again, while its slack
        // lasts.
        const limit = capOf(granted.by.isCurrent ? 0 : SPARSE_BEHIND_MS);
        const slots = slotsOf([...others, granted] as never);
        // With half a million grants, an expectation for each would take longer than everything else.
        if (slots > limit) expect(slots).toBeLessThanOrEqual(limit);
      });
    }),
    { numRuns },
  );
  expect(unstored).toBeGreaterThan(numRuns / 12);
}
