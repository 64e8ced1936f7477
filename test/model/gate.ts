/**
 * The gate's model: the production's pure functions (admit, settle, write-behind, leases, triage) under every
 * interleaving of a few invocations, an object that is evicted or replaced, calls whose answers come late or never,
 * receivers that request a hold, and an operator.
 */
import type { GateSettings } from "../../src/core/limits.ts";
import { afterEmptyDrain } from "../../src/core/settle.ts";
import { type Adder, adderTo, type Model, type Step, type Steps } from "./explorer.ts";
import { isTurnOf, readiness, waitingIn, withLostFound, withMessage } from "./gate-deliveries.ts";
import { keyOf } from "./gate-key.ts";
import { slow } from "./gate-leases.ts";
import {
  afterItsAlarm,
  busyObject,
  changed,
  cutOff,
  evicted,
  type Parts,
  production,
} from "./gate-object.ts";
import { quietObject, withMemoryLost } from "./gate-quiet.ts";
import { consumerText, Invocations, newRun, withNewRun } from "./gate-runs.ts";
import { namesOf, tickText } from "./gate-text.ts";
import {
  BEGINNING,
  chainOf,
  inFlight,
  type Run,
  type Scenario,
  type Stored,
  settingsOf,
  TICK_MS,
  TIMEOUT_MS,
  type World,
} from "./gate-world.ts";

export function gateModel(scenario: Scenario, parts: Parts = production): Model<World> {
  const settings = settingsOf(scenario);
  const world = new GateModel(new Invocations(settings, parts, scenario.portion), parts);
  return {
    initial: beginning(scenario, settings, parts),
    steps: (state) => world.steps(state),
    broken: (state) => broken(state, scenario),
    keyOf,
    calmed: (state) => ({
      ...state,
      faults: 0,
      failures: 0,
      delays: 0,
      holds: 0,
      pauses: 0,
      clears: 0,
      isCalm: true,
      endsAt: Number.POSITIVE_INFINITY,
    }),
    calm: (state) => world.calm(state),
  };
}

function beginning(scenario: Scenario, settings: GateSettings, parts: Parts): World {
  const waiting = Array.from(
    { length: scenario.waiting ?? 0 },
    (): Stored => ({ state: "waiting", at: 0, attempts: 0 }),
  );
  const { faults, failures, delays, holds = 0, pauses = 0, clears = 0, quiet } = scenario;
  const world = {
    ...(quiet ? quietObject(settings, quiet.window) : busyObject(settings)),
    ...{ faults, failures, delays, holds, pauses, clears },
    endsAt: BEGINNING + scenario.ticks * TICK_MS,
    isCalm: false,
    deliveries: [
      ...scenario.messages.flat().map((): Stored => ({ state: "queued", at: 0, attempts: 0 })),
      ...waiting,
    ],
    messages: scenario.messages.map((deliveries, i) => ({
      deliveries,
      at: BEGINNING + (quiet?.arrivals[i] ?? 0) * TICK_MS,
    })),
    ...(quiet && {
      quiet: {
        window: quiet.window,
        hasLost: false,
        hasForgotten: false,
        hasDense: false,
        died: [],
        successes: [],
      },
    }),
    runs: [],
    ...{ paused: false, isResuming: false, tells: [] },
    orphans: [],
  };
  return waiting.length === 0
    ? world
    : changed(parts, world, (state) => parts.scheduleDrain(state, BEGINNING));
}

function broken(world: World, scenario: Scenario): string | undefined {
  if (world.wrong) return world.wrong;
  const { maxConcurrency } = scenario;
  const sending = inFlight(world);
  if (sending > maxConcurrency) return `${sending} attempts are in flight, of ${maxConcurrency} at most.`;
  const waiting = waitingIn(world);
  if (waiting.length > 0 && isLeftAlone(world, scenario))
    return `No drain is scheduled for ${namesOf(waiting)}.`;
  return undefined;
}

/** Whether only the sweep comes for what waits, as after a fault, or if D1 is slow. */
function isLeftAlone(world: World, { faults, delays }: Scenario): boolean {
  const isAsMeant = world.faults === faults && world.delays === delays && !world.isCalm;
  return isAsMeant && isIdle(world) && world.runs.length === 0 && !world.paused && !world.isResuming;
}

function isIdle({ drains, alarmAt, runs }: World): boolean {
  return drains === 0 && alarmAt === null && !runs.some(({ lane }) => lane === "backlog");
}

class GateModel {
  readonly #invocations: Invocations;
  readonly #parts: Parts;

  constructor(invocations: Invocations, parts: Parts) {
    this.#invocations = invocations;
    this.#parts = parts;
  }

  steps(world: World): Steps<World> {
    const steps: Steps<World> = [];
    const add = adderTo(steps);
    this.#arrivals(world, add);
    for (const i of world.runs.keys()) this.#invocations.addSteps(world, i, add);
    if (world.alarmAt !== null && world.alarmAt <= world.now)
      add("The gate's alarm goes off.", afterItsAlarm(this.#parts, world));
    this.#holds(world, add);
    this.#operator(world, add);
    if (world.faults > 0) this.#faults({ ...world, faults: world.faults - 1 }, adderTo(steps, true));
    if (world.now < world.endsAt && mayPass(world)) {
      const delays = world.delays - (isPrompt(world) ? 0 : 1);
      if (delays >= 0) add(tickText(world), { ...passed(world), delays });
    }
    return steps;
  }

  /** The first step that makes progress; time passes only when there is none. */
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

  #arrivals(world: World, add: Adder<World>) {
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

  #consumed(world: World, named: readonly number[], add: Adder<World>) {
    const says = consumerText(named);
    const due = named.filter((i) => readiness(world, i, "queue") === "due");
    const early = named.filter((i) => readiness(world, i, "queue") === "early");
    if (due.length === 0) {
      const at = Math.max(world.now + TICK_MS, ...early.map((i) => world.deliveries[i]?.at ?? 0));
      return add(`${says}: nothing is due.`, early.length > 0 ? withMessage(world, early, at) : world);
    }
    const lane = due.some((i) => (world.deliveries[i]?.attempts ?? 0) > 0) ? "retry" : "fresh";
    const run = newRun(lane, due, world);
    add(`${says}, and requests a lease.`, withNewRun(world, { ...run, phase: "asking", askedAt: world.now }));
    if (world.delays > 0) add(`${says}, and is slow.`, withNewRun(world, slow(run, "loaded", world.now)));
  }

  #drained(world: World): World {
    const waiting = waitingIn(world);
    const run = newRun("backlog", waiting, world);
    if (waiting.length > 0) return withNewRun(world, { ...run, phase: "asking", askedAt: world.now });
    return changed(this.#parts, world, (state) => afterEmptyDrain(state, world.now, world.now));
  }

  // ── Holds, and the operator ──

  #holds(world: World, add: Adder<World>) {
    const { tells, now } = world;
    const [until, ...rest] = tells;
    if (until === undefined) return;
    const told = { ...world, tells: rest, heldUntil: Math.max(world.heldUntil, until) };
    add(
      "The hold is reported to the gate.",
      changed(this.#parts, told, (state) => this.#parts.afterHold(state, until, now).state),
    );
  }

  #operator(world: World, add: Adder<World>) {
    const { now, paused, isResuming, pauses, clears, heldUntil } = world;
    const change = (to: Partial<World>, apply: (parts: Parts) => Parameters<typeof changed>[2]) =>
      changed(this.#parts, { ...world, ...to }, apply(this.#parts));
    if (pauses > 0 && !paused && !isResuming)
      add("An operator pauses the destination.", { ...world, paused: true, pauses: pauses - 1 });
    if (paused) add("An operator lifts the pause.", { ...world, paused: false, isResuming: true });
    if (isResuming)
      add(
        "The end of the pause is reported to the gate.",
        change({ isResuming: false, heldUntil: 0 }, (parts) => (state) => parts.afterResume(state, now)),
      );
    if (clears > 0 && heldUntil > now)
      add(
        "An operator ends the hold.",
        change(
          { clears: clears - 1, heldUntil: 0 },
          (parts) => (state) => parts.afterHoldCleared(state, now).state,
        ),
      );
  }

  // ── Faults ──

  #faults(world: World, add: Adder<World>) {
    if (world.current) {
      add("The gate is evicted from memory.", evicted(withMemoryLost(world)));
      if (!world.former)
        add(
          "A new instance of the gate is begun; the former one still answers.",
          cutOff(withMemoryLost(world)),
        );
    }
    for (const i of world.runs.keys()) this.#invocations.addFaults(world, i, add);
    // In a quiet world nothing happens at the same time.
    for (const [i, { deliveries }] of world.quiet ? [] : world.messages.entries())
      if (world.messages.findIndex((one) => String(one.deliveries) === String(deliveries)) === i)
        add(
          `The message of ${namesOf(deliveries)} will come twice.`,
          withMessage(world, deliveries, world.now),
        );
    if (world.tells.length > 0)
      add("The hold cannot be reported to the gate.", { ...world, tells: world.tells.slice(1) });
    if (world.isResuming)
      add("The end of the pause cannot be reported to the gate.", {
        ...world,
        isResuming: false,
      });
  }

  /** The sweep, which reports waiting deliveries to the gate; undefined when there are none. */
  #swept(world: World): World | undefined {
    const swept = withLostFound(world);
    if (!isIdle(world) || waitingIn(swept).length === 0) return undefined;
    return changed(this.#parts, swept, (state) => this.#parts.scheduleDrain(state, world.now));
  }
}

// ── Time ──

/** An attempt has an end by its timeout. */
function mayPass({ runs, now }: World): boolean {
  const sending = runs.flatMap(({ items }) => items.filter(({ state }) => state === "sending"));
  return sending.every(({ startedAt }) => now + TICK_MS <= startedAt + TIMEOUT_MS);
}

/** Whether nothing is late: attempts take time, and messages have their times. */
function isPrompt(world: World): boolean {
  const { runs, messages, drains, alarmAt, now, tells, isResuming } = world;
  const isSending = ({ items }: Run) => items.some(({ state }) => state === "sending");
  // A lease whose drain has no connection left for it waits for those of the lease before.
  const isBusy = (run: Run) => run.phase === "ready" && chainOf(world, run).some(isSending);
  const isDue = messages.some(({ at }) => at <= now) || drains > 0 || (alarmAt !== null && alarmAt <= now);
  const isUntold = tells.length > 0 || isResuming;
  return !isDue && !isUntold && runs.every(isBusy);
}

function passed(world: World): World {
  return { ...world, now: world.now + TICK_MS };
}
