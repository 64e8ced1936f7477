/** The scenarios of the gate's model, and gates that are broken on purpose, each with one in which it shows. */
import { type GateState, withoutExpired } from "../../src/core/gate-state.ts";
import { ended, type Lease, liveLeases } from "../../src/core/lease.ts";
import type { GateMemory, GateStep } from "../../src/core/write-behind.ts";
import { gateModel } from "./gate.ts";
import { type Parts, production } from "./gate-object.ts";
import type { Scenario } from "./gate-world.ts";
import { type Checked, checked, type Variant } from "./report.ts";

const calm = { messages: [], maxConcurrency: 1, faults: 0, failures: 0, delays: 0, ticks: 7 };
const alone: Scenario = { ...calm, messages: [[0]], faults: 2, ticks: 9 };
const three: Scenario = { ...calm, messages: [[0, 1], [2]], maxConcurrency: 2, faults: 1 };
const failing: Scenario = { ...calm, messages: [[0], [1]], maxConcurrency: 2, failures: 1, ticks: 9 };
const single: Scenario = { ...calm, messages: [[0], [1], [2]], faults: 1 };
const succeeding: Scenario = { ...calm, messages: [[0]], waiting: 2, portion: 1, maxConcurrency: 2 };
const crowded: Scenario = { ...calm, messages: [[0, 1]], waiting: 3, portion: 2, maxConcurrency: 3 };
const held: Scenario = { ...calm, messages: [[0], [1]], maxConcurrency: 2, holds: 1, clears: 1, ticks: 9 };
const paused: Scenario = { ...calm, messages: [[0], [1]], maxConcurrency: 2, pauses: 1, holds: 1, ticks: 5 };
/** Deliveries that come alone: a lease lasts four ticks. */
const lone: Scenario = {
  ...calm,
  messages: [[0], [1]],
  maxConcurrency: 4,
  faults: 1,
  ticks: 9,
  quiet: { window: 2, arrivals: [0, 5] },
};
const soon: Scenario = { ...lone, quiet: { window: 1, arrivals: [0, 2] } };
const dying: Scenario = { ...lone, faults: 2, quiet: { window: 2, arrivals: [0, 4] } };

/** The second finds the gate busy, and gets slack. */
const dense: Scenario = { ...lone, faults: 2, ticks: 7, quiet: { window: 3, arrivals: [0, 1] } };

const after: Scenario = {
  ...lone,
  messages: [[0], [1], [2]],
  quiet: { window: 3, arrivals: [0, 1, 6] },
};

/** Every few seconds: the second gets slack that lasts six ticks. */
const sparse: Scenario = {
  ...lone,
  messages: [[0], [1], [2]],
  quiet: { window: 4, arrivals: [0, 1, 4] },
};
const narrow: Scenario = { ...sparse, maxConcurrency: 2, quiet: { window: 2, arrivals: [0, 1, 4] } };
const crowdedLater: Scenario = {
  ...sparse,
  messages: [[0], [1], [2], [3, 4, 5]],
  maxConcurrency: 3,
  quiet: { window: 3, arrivals: [0, 1, 5, 5] },
};
const late: Scenario = { ...sparse, quiet: { window: 4, arrivals: [0, 1, 8] } };

/** Some thousands of states each. */
export const smallGates: readonly Checked[] = [
  checked("One delivery, at most 1 at once, two faults", () => gateModel(alone)),
  checked("Three deliveries in two messages, at most 2 at once, one fault", () => gateModel(three)),
  checked("Two deliveries, one failed attempt that opens the circuit", () => gateModel(failing)),
  checked("A drain whose leases succeed one another", () => gateModel({ ...succeeding, messages: [] })),
  checked("Two deliveries, a hold that an operator may end", () => gateModel(held)),
  checked("Two deliveries that come alone, the second during the first's lease, two faults", () =>
    gateModel({ ...lone, faults: 2, quiet: { window: 2, arrivals: [0, 2] } }),
  ),
  checked("Two deliveries that come soon after each other, and one after their leases, one fault", () =>
    gateModel(after),
  ),
  checked("Two deliveries that come alone, one at once, one fault", () => gateModel(soon)),
  checked("Three deliveries in sparse traffic, one fault", () => gateModel(sparse)),
  checked("Three deliveries in sparse traffic, two at once, one fault", () => gateModel(narrow)),
];

export const deepGates: readonly Checked[] = [
  checked("Two deliveries, a pause and a hold", () => gateModel(paused)),
  checked("Two deliveries that come alone, the second after the first's lease, two faults", () =>
    gateModel({ ...lone, faults: 2 }),
  ),
  checked("Two deliveries that come soon after each other, two faults", () => gateModel(dense)),
  checked("One delivery, two faults, two delays", () => gateModel({ ...alone, delays: 2 })),
  checked("Three deliveries in a message each, one at once, one fault", () => gateModel(single)),
  checked("Two deliveries, one failed attempt, one fault", () => gateModel({ ...failing, faults: 1 })),
  checked("A drain whose leases succeed one another, one fault", () =>
    gateModel({ ...succeeding, messages: [], faults: 1, ticks: 3 }),
  ),
  checked("A drain whose leases succeed one another, and a consumer", () =>
    gateModel({ ...succeeding, ticks: 2 }),
  ),
  checked(
    "A drain of three whose leases of two succeed one another, a consumer of two, within one moment",
    () => gateModel({ ...crowded, ticks: 0 }),
  ),
  checked("Two deliveries, a hold that an operator may end, one fault", () =>
    gateModel({ ...held, faults: 1 }),
  ),
  checked("Two deliveries, a pause, a hold and a failed attempt", () =>
    gateModel({ ...paused, failures: 1 }),
  ),
  checked("Three deliveries that come alone, two at once, two faults", () =>
    gateModel({
      ...lone,
      messages: [[0], [1], [2]],
      maxConcurrency: 2,
      faults: 2,
      quiet: { window: 2, arrivals: [0, 2, 4] },
    }),
  ),
  checked("Three deliveries in sparse traffic, the last as the slack ends, two faults", () =>
    gateModel({ ...sparse, faults: 2, quiet: { window: 4, arrivals: [0, 1, 6] } }),
  ),
];

function broken(name: string, scenario: Scenario, parts: Partial<Parts>): Variant {
  return checked(name, () => gateModel(scenario, { ...production, ...parts }));
}

/** The newest lease with another end. */
function withEnd(state: GateState, granted: number, expiresAt: number): GateState {
  const newest = state.leases.length - 1;
  if (state.granted === granted) return state;
  return {
    ...state,
    leases: state.leases.map((lease, i) => (i === newest ? { ...lease, expiresAt } : lease)),
  };
}

function withLeases(memory: GateMemory, change: (lease: Lease) => Lease): GateMemory {
  return { ...memory, state: { ...memory.state, leases: memory.state.leases.map(change) } };
}

/** The written state, with slack that lasts until then, and for a lease more. */
function withSlackUntil(step: GateStep, grantsUntil: number): GateStep {
  const { written, state } = step.memory;
  if (!step.writes || !written?.slack) return step;
  const slack = { ...written.slack, grantsUntil, expiresAt: grantsUntil + 20_000 };
  return {
    ...step,
    memory: { ...step.memory, state: { ...state, slack }, written: { ...written, slack } },
  };
}

export const brokenGates: readonly Variant[] = [
  broken("A new incarnation forgets the slack of the one before", three, {
    restored: (stored, now) => production.restored(stored && { ...stored, slack: null }, now),
  }),
  broken("A lease goes out before it is stored", three, {
    afterDecision: (...args) => ({ ...production.afterDecision(...args), writes: false }),
  }),
  broken("A settlement of an unknown lease ends another one", single, {
    settle: (before, request, settings, now, random) => {
      const settled = production.settle(before, request, settings, now, random);
      const [oldest] = settled.state.leases;
      const isKnown = before.leases.some(({ id }) => id === request.lease);
      if (isKnown || !oldest) return settled;
      return { ...settled, state: { ...settled.state, leases: ended(settled.state.leases, oldest) } };
    },
  }),
  broken(
    "A lease never expires",
    { ...alone, faults: 1 },
    {
      admit: (before, request, settings, now) => {
        const { state, result } = production.admit(before, request, settings, now);
        return { state: withEnd(state, before.granted, Number.MAX_SAFE_INTEGER), result };
      },
    },
  ),
  broken(
    "A lease expires at the gate before its holder stops",
    { ...single, faults: 0, delays: 1 },
    {
      admit: (before, request, settings, now) => {
        const { state, result } = production.admit(before, request, settings, now);
        return { state: withEnd(state, before.granted, now + 5_000), result };
      },
    },
  ),
  broken(
    "What was settled is not remembered",
    { ...alone, faults: 1 },
    {
      settle: (before, ...args) => {
        const settled = production.settle(before, ...args);
        return { ...settled, state: { ...settled.state, settled: before.settled } };
      },
    },
  ),
  broken(
    "An expired lease's deliveries are not doubted",
    { ...alone, faults: 1, delays: 4 },
    {
      admit: (before, request, settings, now) =>
        production.admit({ ...before, leases: liveLeases(before.leases, now) }, request, settings, now),
    },
  ),
  broken(
    "What the gate does not remember is not read again",
    { ...alone, maxConcurrency: 2 },
    {
      admit: (...args) => {
        const { state, result } = production.admit(...args);
        const { readAgain: _, ...rest } = result;
        return { state, result: rest };
      },
    },
  ),
  broken(
    "A lease is counted from when its answer arrives",
    { ...alone, messages: [], waiting: 1, faults: 0, delays: 4 },
    {
      arrivedGrant: (grant) => grant,
    },
  ),
  broken("A lease that is succeeded leaves its slots to all", crowded, {
    admit: (before, { succeeds, ...request }, settings, now) => {
      const leases = before.leases.map((one) => (one.id === succeeds ? { ...one, slots: 0, width: 0 } : one));
      return production.admit({ ...before, leases }, request, settings, now);
    },
  }),
  broken(
    "A lease that ends before the one it succeeds returns no slots",
    { ...succeeding, messages: [[0, 1]], ticks: 1 },
    {
      settle: (before, ...args) => {
        const settled = production.settle(before, ...args);
        const kept = new Map(before.leases.map((one) => [one.id, one]));
        const leases = settled.state.leases.map((one) => kept.get(one.id) ?? one);
        return { ...settled, state: { ...settled.state, leases } };
      },
    },
  ),
  broken(
    "A hold is not stored",
    { ...held, clears: 0, faults: 1 },
    {
      afterDecision: (before, after, now) => {
        const step = production.afterDecision(before, after, now);
        const isHeld = after.destinationState.heldUntil > before.state.destinationState.heldUntil;
        return isHeld ? { ...step, writes: false } : step;
      },
    },
  ),
  broken("A refusal in a hold schedules no drain", held, {
    admit: (before, ...args) => {
      const { state, result } = production.admit(before, ...args);
      if (result.refused?.reason !== "hold") return { state, result };
      const drainSchedule = { ...state.drainSchedule, at: before.drainSchedule.at };
      return { state: { ...state, drainSchedule }, result };
    },
  }),
  broken("A pause is not looked at", paused, {
    admit: (before, request, settings, now) =>
      production.admit(before, request, { ...settings, paused: false }, now),
  }),
  broken("An inherited lease that has expired counts as lost", lone, {
    restored: (stored, now) =>
      withLeases(production.restored(stored, now), ({ inherited: _, ...one }) => one),
  }),
  broken("An inherited lone lease that has expired counts as nothing", lone, {
    restored: (stored, now) => withLeases(production.restored(stored, now), ({ lone: _, ...one }) => one),
  }),
  broken("A new incarnation drops expired leases beside slack", dense, {
    restored: (stored, now) => {
      const memory = production.restored(stored, now);
      const { state } = memory;
      return stored?.slack
        ? { ...memory, state: { ...state, leases: liveLeases(state.leases, now) } }
        : memory;
    },
  }),
  broken("An end that waits for the alarm looks like a crash after an eviction", after, {
    restored: (stored, now) =>
      withLeases(production.restored(stored, now), ({ inherited, ...one }) =>
        inherited && !stored?.slack ? { ...one, inherited } : one,
      ),
  }),
  broken("A delivery of a lone lease that comes again, still open, proves no death", dying, {
    admit: (before, request, settings, now) =>
      production.admit({ ...withoutExpired(before, settings, now), presumed: [] }, request, settings, now),
  }),
  broken("A lone lease is forgotten as soon as its success is presumed", dying, {
    admit: (before, ...args) => production.admit({ ...before, presumed: [] }, ...args),
  }),
  broken("The end of a lone lease stays unwritten although no slot is left beside it", soon, {
    afterDecision: (before, after, now) => {
      const step = production.afterDecision(before, after, now);
      const isEnd = after.leases.length < before.state.leases.length;
      return isEnd ? { memory: { ...step.memory, isBehind: false }, writes: false } : step;
    },
  }),
  broken("A lone success sets the alarm", lone, {
    afterDecision: (before, after, now) => {
      const step = production.afterDecision(before, after, now);
      const isEnd = after.leases.length < before.state.leases.length;
      const alarm = now + 10_000;
      return isEnd ? { ...step, memory: { ...step.memory, alarmAt: alarm }, alarm } : step;
    },
  }),
  broken("A success in sparse traffic sets the alarm", sparse, {
    afterDecision: (before, after, now) => {
      const step = production.afterDecision(before, after, now);
      const isEnd = after.leases.length < before.state.leases.length && before.written?.slack;
      return isEnd ? { ...step, alarm: now + 10_000 } : step;
    },
  }),
  broken("The slack of sparse traffic leaves the next incarnation no slot", narrow, {
    afterDecision: (before, after, now) =>
      withSlackUntil(production.afterDecision(before, after, now), now + 30_000),
  }),
  broken("A new incarnation counts the slack of sparse traffic for too short a time", crowdedLater, {
    restored: (stored, now) => {
      const { slack } = stored ?? {};
      const short = slack && { ...slack, expiresAt: slack.expiresAt - 40_000 };
      return production.restored(stored && short ? { ...stored, slack: short } : stored, now);
    },
  }),
  broken("An instance that was cut off takes its slack for new at each call", late, {
    afterDecision: (before, after, now) => {
      const { written } = before;
      const slack = written?.slack && {
        ...written.slack,
        grantsUntil: now + 30_000,
        expiresAt: now + 50_000,
      };
      const memory = written && slack ? { ...before, written: { ...written, at: now, slack } } : before;
      return production.afterDecision(memory, after, now);
    },
  }),
  broken("A pause that is lifted schedules no drain", paused, {
    afterResume: (before, ...args) => ({
      ...production.afterResume(before, ...args),
      drainSchedule: before.drainSchedule,
    }),
  }),
];
