/**
 * The gate's model: the production's pure functions (admit, settle, write-behind, leases, triage) under every
 * interleaving of a few invocations, an object that is evicted or replaced, and calls whose answers come late or never.
 */
import { type AdmitRequest, admit, settledSince } from "../../src/core/admit.ts";
import type { AttemptSignal } from "../../src/core/destination-state.ts";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import { arrivedGrant, CONNECTIONS, startsUntil } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { afterEmptyDrain, scheduleDrain, settle } from "../../src/core/settle.ts";
import { type DeliverySource, readinessOf } from "../../src/core/triage.ts";
import { afterAlarm, afterDecision, restored, type Step as Written } from "../../src/core/write-behind.ts";
import type { Model, Step } from "./explorer.ts";
import {
  BEGINNING,
  CALL_MS,
  type Instance,
  type Item,
  inFlight,
  keyOf,
  type Run,
  type Scenario,
  STARTS_MS,
  type Stored,
  settingsOf,
  TICK_MS,
  TIMEOUT_MS,
  type World,
} from "./gate-world.ts";

/** The production functions that the model is made of; a broken variant replaces one of them. */
export const production = {
  admit,
  settle,
  afterDecision,
  afterAlarm,
  restored,
  startsUntil,
  arrivedGrant,
  settledSince,
};

export type Parts = typeof production;

type Steps = Step<World>[];

/** Nothing is added where a step is not possible. */
type Add = (says: string, to: World | undefined, isFault?: boolean) => void;

export function gateModel(scenario: Scenario, parts: Parts = production): Model<World> {
  const settings = settingsOf(scenario);
  const world = new GateModel(settings, parts);
  return {
    initial: beginning(scenario, settings, parts),
    steps: (state) => world.steps(state),
    broken: (state) => broken(state, scenario.maxConcurrency),
    keyOf,
    calmed: (state) => ({
      ...state,
      faults: 0,
      failures: 0,
      delays: 0,
      isCalm: true,
      endsAt: Number.POSITIVE_INFINITY,
    }),
    calm: (state) => world.calm(state),
  };
}

/** Busy: two deliveries have come and gone, so the gate grants leases out of its slack. */
function beginning(scenario: Scenario, settings: GateSettings, parts: Parts): World {
  const fresh = newGateState(BEGINNING);
  const size = scenario.maxConcurrency;
  const destinationState = { ...fresh.destinationState, window: { size, threshold: 1_000_000 } };
  let memory = parts.restored({ ...fresh, maxConcurrency: size, destinationState }, BEGINNING);
  let storage: GateState = memory.state;
  let alarmAt: number | null = null;
  const keep = (step: Written) => {
    memory = step.memory;
    if (step.writes) storage = step.memory.state;
    if (step.alarm !== undefined) alarmAt = step.alarm;
  };
  for (const delivery of [1_000, 1_001]) {
    const request = { ...requestOf("fresh", [delivery]) };
    const { state, result } = parts.admit(memory.state, request, settings, BEGINNING);
    keep(parts.afterDecision(memory, state, BEGINNING));
    const done = { lease: result.grant?.id ?? "", signals: [signalOf(BEGINNING, true)], left: 0 };
    keep(
      parts.afterDecision(memory, parts.settle(memory.state, done, settings, BEGINNING, 0).state, BEGINNING),
    );
  }
  // The alarm has stored what has come of them.
  keep(parts.afterAlarm(memory, BEGINNING));
  const now = BEGINNING;
  const waiting = Array.from(
    { length: scenario.waiting ?? 0 },
    (): Stored => ({ state: "waiting", at: 0, attempts: 0 }),
  );
  return {
    now,
    faults: scenario.faults,
    failures: scenario.failures,
    delays: scenario.delays,
    endsAt: now + scenario.ticks * TICK_MS,
    isCalm: false,
    storage,
    alarmAt,
    current: { name: "1", memory, knows: [] },
    former: undefined,
    lives: 1,
    deliveries: [
      ...scenario.messages.flat().map((): Stored => ({ state: "queued", at: 0, attempts: 0 })),
      ...waiting,
    ],
    messages: scenario.messages.map((deliveries) => ({ deliveries, at: now })),
    drains: waiting.length > 0 ? 1 : 0,
    runs: [],
    orphans: [],
  };
}

function requestOf(lane: AdmitRequest["lane"], deliveries: readonly number[]): AdmitRequest {
  return { lane, deliveries, connections: CONNECTIONS, startWithinMs: STARTS_MS };
}

function signalOf(at: number, isHealthy: boolean): AttemptSignal {
  return { at, health: isHealthy ? "healthy" : "unhealthy", backsOff: !isHealthy };
}

function broken(world: World, maxConcurrency: number): string | undefined {
  if (world.wrong) return world.wrong;
  const sending = inFlight(world);
  if (sending > maxConcurrency) return `${sending} attempts are in flight, of ${maxConcurrency} at most.`;
  return undefined;
}

const letters = "ABCDEFGH";
const nameOf = (delivery: number) => letters[delivery] ?? "?";
const namesOf = (deliveries: readonly number[]) => deliveries.map(nameOf).join(" and ");

function runName({ lane, deliveries }: Run, isInside = false): string {
  const the = isInside ? "the" : "The";
  return `${the} ${lane === "backlog" ? "drain" : "consumer"} of ${namesOf(deliveries)}`;
}

function gateName(by: Which, { former }: World): string {
  if (by === "former") return "The gate's former instance";
  return former ? "The gate's new instance" : "The gate";
}

class GateModel {
  readonly #settings: GateSettings;
  readonly #parts: Parts;

  constructor(settings: GateSettings, parts: Parts) {
    this.#settings = settings;
    this.#parts = parts;
  }

  steps(world: World): Steps {
    const steps: Steps = [];
    const add: Add = (says, to, isFault = false) => {
      if (to) steps.push({ says, to, ...(isFault && { isFault }) });
    };
    this.#arrivals(world, add);
    for (const i of world.runs.keys()) this.#runSteps(world, i, add);
    if (world.alarmAt !== null && world.alarmAt <= world.now)
      add("The gate's alarm goes off.", this.#alarm(world));
    if (world.faults > 0)
      this.#faults({ ...world, faults: world.faults - 1 }, (says, to) => add(says, to, true));
    if (world.now < world.endsAt && mayPass(world)) {
      const delays = world.delays - (isPrompt(world) ? 0 : 1);
      if (delays >= 0) add(tickText(world), { ...passed(world), delays });
    }
    return steps;
  }

  /** The first step that brings things forward; time passes only when there is none. */
  calm(given: World): Step<World> | undefined {
    const world = given.former ? { ...given, former: undefined } : given;
    if (world.deliveries.every(({ state }) => state === "ended") && world.runs.length === 0) return undefined;
    const [first] = this.steps(world);
    const isPassing = first?.says === tickText(world);
    if (first && !isPassing) return first;
    const swept = this.#swept(world);
    if (swept)
      return {
        says: "The sweep finds what waits, or was lost, and has the gate schedule a drain.",
        to: swept,
      };
    return { says: tickText(world), to: passed(world) };
  }

  // ── Messages ──

  #arrivals(world: World, add: Add) {
    const { messages, now } = world;
    for (const [i, message] of messages.entries()) {
      if (message.at > now) continue;
      const isDuplicate =
        messages.findIndex((one) => one.at <= now && String(one.deliveries) === String(message.deliveries)) <
        i;
      if (isDuplicate || !isTurnOf(world, message.deliveries)) continue;
      const rest = messages.filter((one) => one !== message);
      this.#consumed({ ...world, messages: rest }, message.deliveries, add);
    }
    if (world.drains > 0)
      add("A drain begins, and reads what waits.", this.#drained({ ...world, drains: world.drains - 1 }));
  }

  #consumed(world: World, named: readonly number[], add: Add) {
    const says = `The message of ${namesOf(named)} comes; its consumer reads D1`;
    const due = named.filter((i) => readiness(world, i, "queue") === "due");
    const early = named.filter((i) => readiness(world, i, "queue") === "early");
    if (due.length === 0) {
      const at = Math.max(world.now + TICK_MS, ...early.map((i) => world.deliveries[i]?.at ?? 0));
      return add(`${says}: nothing is due.`, early.length > 0 ? withMessage(world, early, at) : world);
    }
    const lane = due.some((i) => (world.deliveries[i]?.attempts ?? 0) > 0) ? "retry" : "fresh";
    const run = newRun(lane, due, world.now);
    add(`${says}, and asks the gate.`, withNewRun(world, { ...run, phase: "asking", askedAt: world.now }));
    if (world.delays > 0) add(`${says}, and is slow.`, withNewRun(world, slow(run, "loaded", world.now)));
  }

  #drained(world: World): World | undefined {
    const waiting = waitingIn(world);
    const run = newRun("backlog", waiting, world.now);
    if (waiting.length > 0) return withNewRun(world, { ...run, phase: "asking", askedAt: world.now });
    return this.#call(world, "current", (state) => ({ state: afterEmptyDrain(state, world.now, world.now) }))
      ?.world;
  }

  // ── What an invocation does ──

  #runSteps(world: World, i: number, add: Add) {
    const run = world.runs[i];
    if (!run) return;
    const name = runName(run);
    const change = (to: Partial<Run>, others: Partial<World> = {}): World =>
      withRun({ ...world, ...others }, i, to);
    if (world.now < run.slowUntil) return;
    switch (run.phase) {
      case "loaded":
        return add(`${name} asks the gate.`, change({ phase: "asking", askedAt: world.now }));
      case "asking":
        if (world.now - run.askedAt > CALL_MS)
          return add(`${name} gets no answer.`, this.#unreachable(world, i));
        this.#decided(world, i, "current", add);
        return this.#decided(world, i, "former", add);
      case "answered":
        if (world.now - run.askedAt > CALL_MS)
          return add(`${name} gets no answer.`, this.#unreachable(world, i));
        return add(`${name} gets the answer.`, this.#arrived(world, i));
      case "loading": {
        const items = run.items.filter(({ delivery }) => readiness(world, delivery, "drain") === "due");
        add(`${name} reads D1 again.`, change({ phase: "ready", readyAt: world.now, items, slowUntil: 0 }));
        if (world.delays > 0 && run.slowUntil === 0)
          add(`${name} reads D1 again, slowly.`, withRun(world, i, slow(run, "loading", world.now)));
        return;
      }
      case "ready":
        return this.#attemptSteps(world, i, run, add);
      case "attempted":
        return add(`${name} records what has come of it.`, recorded(world, i, run));
      case "recorded":
        add(`${name} settles its lease.`, this.#settled(world, i, "current"));
        if (world.former)
          add(`${name} settles its lease with the former instance.`, this.#settled(world, i, "former"));
    }
  }

  #attemptSteps(world: World, i: number, run: Run, add: Add) {
    const { grant, items, grantedAt, readyAt } = run;
    if (!grant) return;
    const sending = items.filter(({ state }) => state === "sending").length;
    const until = this.#parts.startsUntil(grant.grant, grantedAt, readyAt, TIMEOUT_MS);
    const mayStart = world.now < until && sending < grant.grant.slots;
    const next = items.find(({ state }) => state === "unsent");
    if (next && mayStart)
      add(`${runName(run)} sends ${nameOf(next.delivery)}.`, started(world, i, run, next));
    for (const item of items) {
      if (item.state !== "sending") continue;
      const ended = (state: Item["state"], failures: number) =>
        withRun({ ...world, failures }, i, {
          items: items.map((one) => (one === item ? { ...one, state } : one)),
        });
      add(`The receiver has taken ${nameOf(item.delivery)}.`, ended("succeeded", world.failures));
      if (world.failures > 0)
        add(`The attempt of ${nameOf(item.delivery)} fails.`, ended("failed", world.failures - 1));
    }
    const isOver = !next || world.now >= until;
    if (sending > 0 || !isOver) return;
    add(`${runName(run)} records what has come of it.`, recorded(world, i, run));
    if (world.delays > 0)
      add(
        `${runName(run)} is slow to record what has come of it.`,
        withRun(world, i, slow(run, "attempted", world.now)),
      );
  }

  /** The gate's decision, whose answer arrives at once, or late. */
  #decided(world: World, i: number, by: Which, add: Add) {
    const run = world.runs[i];
    if (!run || (!world[by] && by === "former")) return;
    const lookedUpMsAgo = run.lane === "backlog" ? 0 : run.askedAt - run.readAt;
    const request = { ...requestOf(run.lane, run.deliveries), lookedUpMsAgo };
    const called = this.#call(world, by, (state) =>
      this.#parts.admit(state, request, this.#settings, world.now),
    );
    if (!called) return;
    const { grant, refused, inFlight, settled = [] } = called.decision.result;
    const instance = called.world[by];
    const lease = instance?.memory.state.leases.find(({ id }) => id === grant?.id);
    const knows = instance?.knows ?? [];
    const kept = grant ? withKnown(called.world, by, grant.id) : called.world;
    const held = inFlight?.deliveries ?? [];
    const answered: Run = {
      ...run,
      phase: "answered",
      ...(grant && { grant: { grant, knows, expiresAt: lease?.expiresAt ?? 0 } }),
      settled: settled.map(({ delivery, msAgo }) => ({ delivery, msAgo })),
      refused: refused?.deliveries ?? [],
      againAt: held.length > 0 ? Math.max(inFlight?.until ?? 0, world.now + TICK_MS) : undefined,
      items: (grant?.deliveries ?? []).map((delivery) => ({ delivery, state: "unsent", startedAt: 0 })),
    };
    const says = `${gateName(by, world)} gives ${runName(run, true)} ${answerText(answered)}`;
    const next = withRun(kept, i, answered);
    add(`${says}.`, this.#arrived(next, i));
    if (world.delays > 0)
      add(`${says}; the answer is slow.`, withRun(next, i, slow(answered, "answered", world.now)));
    if (grant && world.faults > 0)
      add(
        `${says}; the answer is lost, and the call repeated.`,
        withRun({ ...kept, faults: world.faults - 1 }, i, run),
        true,
      );
  }

  /** The answer is there: what was settled after the look-up is left alone. A drain reads D1 now. */
  #arrived(world: World, i: number): World | undefined {
    const run = world.runs[i];
    if (!run) return undefined;
    const { grant, lane, settled, readAt, askedAt, refused, againAt, items } = run;
    if (!grant) {
      const rest = { ...world, runs: world.runs.toSpliced(i, 1) };
      return afterRefusal(rest, run, refused, againAt);
    }
    const usable = this.#parts.arrivedGrant(grant.grant, askedAt, world.now);
    const arrived = { ...run, grant: { ...grant, grant: usable }, grantedAt: world.now, slowUntil: 0 };
    if (lane === "backlog") return withRun(world, i, { ...arrived, phase: "loading" });
    const doubtful = this.#parts.settledSince({ grant: usable, settled }, readAt, world.now);
    return withRun(world, i, {
      ...arrived,
      phase: "ready",
      readyAt: world.now,
      items: items.filter(({ delivery }) => !doubtful.includes(delivery)),
      againAt: doubtful.length > 0 ? (againAt ?? world.now + TICK_MS) : againAt,
    });
  }

  #unreachable(world: World, i: number): World {
    const run = world.runs[i];
    if (!run) return world;
    const rest = { ...world, runs: world.runs.toSpliced(i, 1) };
    return run.lane === "backlog"
      ? { ...rest, drains: rest.drains + 1 }
      : withMessage(rest, run.deliveries, world.now + TICK_MS);
  }

  #settled(world: World, i: number, by: Which, repeats = false): World | undefined {
    const run = world.runs[i];
    if (!run?.grant) return undefined;
    const signals = run.items.flatMap(({ state, startedAt }) =>
      state === "unsent" ? [] : [signalOf(startedAt, state === "succeeded")],
    );
    const left = run.items.length - signals.length;
    const request = { lease: run.grant.grant.id, signals, left };
    const called = this.#call(world, by, (state) =>
      this.#parts.settle(state, request, this.#settings, world.now, 0),
    );
    if (!called) return undefined;
    return repeats ? called.world : ended(called.world, i);
  }

  // ── The gate's object ──

  #alarm(world: World): World {
    const instance = this.#instance(world);
    const step = this.#parts.afterAlarm(instance.memory, world.now);
    const stored = this.#saved({ ...world, alarmAt: null, current: instance }, step);
    return { ...stored, drains: stored.drains + step.drains };
  }

  /** Undefined where a former instance would have to write, which it cannot: nobody gets an answer. */
  #call<D extends Readonly<{ state: GateState }>>(
    world: World,
    which: Which,
    decide: (state: GateState) => D,
  ) {
    const instance = which === "former" ? world.former : this.#instance(world);
    if (!instance) return undefined;
    const decision = decide(instance.memory.state);
    const step = this.#parts.afterDecision(instance.memory, decision.state, world.now);
    if (which === "current") return { decision, world: this.#saved({ ...world, current: instance }, step) };
    if (step.writes || step.alarm !== undefined) return undefined;
    return { decision, world: { ...world, former: { ...instance, memory: step.memory } } };
  }

  #saved(world: World, { memory, writes, alarm }: Written): World {
    const { current } = world;
    return {
      ...world,
      current: current && { ...current, memory },
      storage: writes ? memory.state : world.storage,
      alarmAt: alarm === undefined ? world.alarmAt : alarm,
    };
  }

  /** The instance that may write; where there is none in memory, a new one begins with what is stored. */
  #instance({ current, storage, now, lives }: World): Instance {
    if (current) return current;
    const memory = this.#parts.restored(storage, now);
    return { name: String(lives), memory, knows: (storage?.leases ?? []).map(({ id }) => id) };
  }

  // ── What goes wrong ──

  #faults(world: World, add: Add) {
    if (world.current) {
      add("The gate is evicted from memory.", { ...world, current: undefined, lives: world.lives + 1 });
      if (!world.former) {
        const rest = { ...world, former: world.current, current: undefined, lives: world.lives + 1 };
        add("A new instance of the gate is begun; the former one still answers.", rest);
      }
    }
    for (const [i, run] of world.runs.entries()) {
      const name = runName(run);
      const isSending = run.items.some(({ state }) => state === "sending");
      if (run.phase !== "loaded")
        add(`${name} dies${isSending ? " while it sends" : ""}.`, died(world, i, run));
      if (run.phase === "recorded") {
        add(`${name} cannot reach the gate to settle its lease.`, ended(world, i));
        add(`${name} settles its lease, and settles it again.`, this.#settled(world, i, "current", true));
      }
    }
    for (const [i, { deliveries }] of world.messages.entries())
      if (world.messages.findIndex((one) => String(one.deliveries) === String(deliveries)) === i)
        add(
          `The message of ${namesOf(deliveries)} will come twice.`,
          withMessage(world, deliveries, world.now),
        );
  }

  /** The sweep, which has the gate told of what waits; undefined when there is nothing for it. */
  #swept(world: World): World | undefined {
    const isHeld = (i: number) =>
      world.runs.some(({ deliveries }) => deliveries.includes(i)) ||
      world.messages.some(({ deliveries }) => deliveries.includes(i));
    const lost = (stored: Stored, i: number) =>
      (stored.state === "queued" || (stored.state === "retrying" && stored.at <= world.now)) && !isHeld(i);
    const deliveries = world.deliveries.map(
      (stored, i): Stored => (lost(stored, i) ? { ...stored, state: "waiting" } : stored),
    );
    const swept = { ...world, deliveries };
    const isIdle =
      world.drains === 0 && world.alarmAt === null && !world.runs.some(({ lane }) => lane === "backlog");
    if (!isIdle || waitingIn(swept).length === 0) return undefined;
    return this.#call(swept, "current", (state) => ({ state: scheduleDrain(state, world.now) }))?.world;
  }
}

type Which = "current" | "former";

// ── Time ──

/** An attempt has an end by its timeout. */
function mayPass({ runs, now }: World): boolean {
  const sending = runs.flatMap(({ items }) => items.filter(({ state }) => state === "sending"));
  return sending.every(({ startedAt }) => now + TICK_MS <= startedAt + TIMEOUT_MS);
}

/** Whether nothing is late: attempts take time, and messages have their times. */
function isPrompt({ runs, messages, drains, alarmAt, now }: World): boolean {
  const isSending = ({ items }: Run) => items.some(({ state }) => state === "sending");
  const isDue = messages.some(({ at }) => at <= now) || drains > 0 || (alarmAt !== null && alarmAt <= now);
  return !isDue && runs.every((run) => run.phase === "ready" && isSending(run));
}

function passed(world: World): World {
  return { ...world, now: world.now + TICK_MS };
}

function tickText({ now }: World): string {
  return `${(now + TICK_MS - BEGINNING) / 1000} s have passed.`;
}

// ── Deliveries in D1 ──

/** Messages of one delivery each are alike until they come for the first time: these come in order. */
function isTurnOf({ deliveries, runs, messages }: World, [first = 0, ...others]: readonly number[]): boolean {
  const isUntouched = (i: number) =>
    deliveries[i]?.state === "queued" &&
    !runs.some((run) => run.deliveries.includes(i)) &&
    messages.some((one) => one.at === BEGINNING && one.deliveries.length === 1 && one.deliveries[0] === i);
  if (others.length > 0 || !isUntouched(first)) return true;
  return !Array.from({ length: first }, (_, i) => i).some(isUntouched);
}

function readiness({ deliveries, now }: World, i: number, source: DeliverySource) {
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

function waitingIn({ deliveries }: World): number[] {
  return deliveries.flatMap(({ state }, i) => (state === "waiting" ? [i] : []));
}

function withMessage(world: World, deliveries: readonly number[], at: number): World {
  return { ...world, messages: [...world.messages, { deliveries, at }] };
}

function withStored(world: World, i: number, stored: Partial<Stored>): World {
  return { ...world, deliveries: world.deliveries.map((one, k) => (k === i ? { ...one, ...stored } : one)) };
}

// ── Invocations ──

function newRun(lane: Run["lane"], deliveries: readonly number[], now: number): Run {
  // Reading has taken a millisecond.
  const times = { slowUntil: 0, readAt: now - 1, askedAt: 0, grantedAt: 0, readyAt: 0 };
  return { lane, phase: "loaded", deliveries, ...times, settled: [], refused: [], items: [] };
}

function withNewRun(world: World, run: Run): World {
  return { ...world, runs: [...world.runs, run] };
}

function slow(run: Run, phase: Run["phase"], now: number): Run {
  return { ...run, phase, slowUntil: now + TICK_MS };
}

function withRun(world: World, i: number, change: Partial<Run>): World {
  return { ...world, runs: world.runs.map((run, k) => (k === i ? { ...run, ...change } : run)) };
}

function withKnown(world: World, which: Which, lease: string): World {
  const instance = world[which];
  return instance ? { ...world, [which]: { ...instance, knows: [...instance.knows, lease] } } : world;
}

function answerText({ grant, refused, items }: Run): string {
  if (grant) return `a lease for ${namesOf(items.map(({ delivery }) => delivery))}`;
  return refused.length > 0 ? "a refusal" : "no lease: it is in flight, or to be read again";
}

function started(world: World, i: number, run: Run, item: Item): World {
  const items = run.items.map((one) =>
    one === item ? { ...one, state: "sending" as const, startedAt: world.now } : one,
  );
  const sent = withRun(world, i, { items });
  const { end } = world.deliveries[item.delivery] ?? {};
  const isKnown = end?.isInTime && run.grant?.knows.includes(end.lease);
  if (!isKnown) return sent;
  return {
    ...sent,
    wrong: `${nameOf(item.delivery)} is sent after its end was recorded under a lease that the gate knew of.`,
  };
}

/** The outcomes are written as the database guards them: what has ended stays as it is. */
function recorded(world: World, i: number, { items, refused, grant }: Run): World {
  let next = world;
  for (const { delivery, state } of items) {
    const { state: before, attempts = 0 } = next.deliveries[delivery] ?? {};
    if (before === "ended") continue;
    const isInTime = world.now < (grant?.expiresAt ?? 0);
    const end = { state: "ended", end: { lease: grant?.grant.id ?? "", isInTime } } as const;
    const retry = { state: "retrying", at: world.now + TICK_MS } as const;
    if (state === "succeeded") next = withStored(next, delivery, { ...end, attempts: attempts + 1 });
    else if (state === "failed") next = withStored(next, delivery, { ...retry, attempts: attempts + 1 });
    else next = withStored(next, delivery, { state: "waiting" });
  }
  for (const delivery of refused)
    if (next.deliveries[delivery]?.state !== "ended") next = withStored(next, delivery, { state: "waiting" });
  return withRun(next, i, { phase: "recorded", slowUntil: 0 });
}

/** Refused without a lease: it waits in D1, unless it has ended. */
function afterRefusal(
  world: World,
  run: Run,
  refused: readonly number[],
  againAt: number | undefined,
): World {
  let next = world;
  for (const delivery of refused)
    if (next.deliveries[delivery]?.state !== "ended") next = withStored(next, delivery, { state: "waiting" });
  const held = run.deliveries.filter((i) => !refused.includes(i));
  return againAt !== undefined && run.lane !== "backlog" ? withMessage(next, held, againAt) : next;
}

/** The message is acknowledged, or comes again for what is open. A drain that has found more goes on. */
function ended(world: World, i: number): World {
  const run = world.runs[i];
  if (!run) return world;
  const rest = { ...world, runs: world.runs.toSpliced(i, 1) };
  const retries = run.items.filter(({ state }) => state === "failed").map(({ delivery }) => delivery);
  const named = new Set([...run.items.map(({ delivery }) => delivery), ...run.refused]);
  const held = run.lane === "backlog" ? [] : run.deliveries.filter((one) => !named.has(one));
  const withRetries = retries.length > 0 ? withMessage(rest, retries, world.now + TICK_MS) : rest;
  if (held.length > 0 && run.againAt !== undefined) return withMessage(withRetries, held, run.againAt);
  return withRetries;
}

/** Its requests may still be under way; its message comes again. */
function died(world: World, i: number, run: Run): World {
  const sending = run.items.filter(({ state }) => state === "sending");
  const orphans = [...world.orphans, ...sending.map(({ startedAt }) => startedAt + TIMEOUT_MS)];
  const rest = { ...world, orphans, runs: world.runs.toSpliced(i, 1) };
  return run.lane === "backlog"
    ? { ...rest, drains: rest.drains + 1 }
    : withMessage(rest, run.deliveries, world.now + TICK_MS);
}
