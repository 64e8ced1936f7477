/**
 * The rate limit's model: the gate's object of test/model/gate.ts with a rate that is scarce, and consumers that start
 * attempts when their slots allow it, end early, or die. An attempt takes no time.
 */
import type { GateState } from "../../src/core/gate-state.ts";
import type { Grant } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { type SendSlots, sendSlotsOf } from "../../src/core/rate-limit.ts";
import type { GateMemory } from "../../src/core/write-behind.ts";
import { type Adder, adderTo, type Model, type Step, type Steps } from "./explorer.ts";
import { remembered, sorted, withShortNames } from "./gate-key.ts";
import {
  afterItsAlarm,
  busyObject,
  called,
  evicted,
  type Parts,
  production,
  requestOf,
  signalOf,
} from "./gate-object.ts";
import { secondsOf } from "./gate-text.ts";
import { BEGINNING, type ObjectWorld } from "./gate-world.ts";

export type RateScenario = Readonly<{
  /** One send in this time, and so many at once. */
  everyMs: number;
  burst: number;
  /** The clock moves by so much; so long consumers start attempts, and so long an attempt may take. */
  tickMs: number;
  startWithinMs: number;
  /** How many sends each consumer requests. They request in this order, at any time. */
  wanted: readonly number[];
  /** The most deaths, evictions and lost answers. */
  faults: number;
  /** How often the clock moves although something may start: answers and starts that are late. */
  delays: number;
  ticks: number;
}>;

/** A consumer with a lease. */
type Holder = Readonly<{
  grant: Grant;
  grantedAt: number;
  startsUntilAt: number;
  /** When each of its attempts was started. */
  starts: readonly number[];
}>;

type World = ObjectWorld &
  Readonly<{
    faults: number;
    delays: number;
    endsAt: number;
    /** The requests that consumers have yet to make; the first has to wait until `askAt`. */
    wanted: readonly number[];
    askAt: number;
    holders: readonly Holder[];
    /** When the rate alone is used up, by all past starts: what the receiver counts. */
    usedUpTo: number;
    wrong?: string;
  }>;

export function rateModel(scenario: RateScenario, parts: Parts = production): Model<World> {
  const model = new RateModel(scenario, parts);
  return {
    initial: model.beginning(),
    steps: (world) => model.steps(world),
    broken: ({ wrong }) => wrong,
    keyOf,
    calmed: (world) => ({ ...world, faults: 0, delays: 0, endsAt: Number.POSITIVE_INFINITY }),
    calm: (world) => model.calm(world),
  };
}

class RateModel {
  readonly #scenario: RateScenario;
  readonly #settings: GateSettings;
  readonly #parts: Parts;

  constructor(scenario: RateScenario, parts: Parts) {
    const { everyMs, burst, tickMs } = scenario;
    this.#scenario = scenario;
    this.#parts = parts;
    this.#settings = {
      paused: false,
      maxConcurrency: 10,
      ratePerSecond: 1000 / everyMs,
      rateBurst: burst,
      timeoutMs: tickMs,
      breaker: {
        failureRatio: 0.5,
        minAttempts: 1,
        windowMs: 60_000,
        cooldownMs: 10_000,
        maxCooldownMs: 10_000,
      },
    };
  }

  beginning(): World {
    const { everyMs, faults, delays, ticks, tickMs, wanted } = this.#scenario;
    const object = busyObject(this.#settings);
    const endsAt = BEGINNING + ticks * tickMs;
    const usedUpTo = BEGINNING + 2 * everyMs;
    return { ...object, faults, delays, endsAt, wanted, askAt: 0, holders: [], usedUpTo };
  }

  steps(world: World): Steps<World> {
    const steps: Steps<World> = [];
    const add = adderTo(steps);
    if (world.alarmAt !== null && world.alarmAt <= world.now)
      add("The gate's alarm goes off.", afterItsAlarm(this.#parts, world));
    if (world.wanted.length > 0 && world.askAt <= world.now) this.#asked(world, add);
    for (const i of world.holders.keys()) this.#holderSteps(world, i, add);
    if (world.faults > 0) faultSteps({ ...world, faults: world.faults - 1 }, adderTo(steps, true));
    const delays = world.delays - (isPrompt(world) ? 0 : 1);
    if (world.now < world.endsAt && delays >= 0)
      add(this.#tickText(world), { ...this.#passed(world), delays });
    return steps;
  }

  calm(world: World): Step<World> | undefined {
    if (world.wanted.length === 0 && world.holders.length === 0) return undefined;
    const [first] = this.steps(world);
    return first ?? { says: this.#tickText(world), to: this.#passed(world) };
  }

  #passed(world: World): World {
    return { ...world, now: world.now + this.#scenario.tickMs };
  }

  #tickText({ now }: World): string {
    return `${secondsOf(now + this.#scenario.tickMs)} have passed.`;
  }

  /** A refused request is repeated at the time that the gate has named. */
  #asked(world: World, add: Adder<World>) {
    const { startWithinMs, tickMs } = this.#scenario;
    const { now } = world;
    const [count = 0, ...others] = world.wanted;
    // No delivery is requested twice.
    const from = (world.current?.memory.state.granted ?? 0) * 100 + world.faults * 10_000;
    const request = requestOf(
      "fresh",
      Array.from({ length: count }, (_, i) => from + i),
      startWithinMs,
    );
    const made = called(this.#parts, world, "current", (state) =>
      this.#parts.admit(state, request, this.#settings, now),
    );
    if (!made) return;
    const { grant, refused } = made.decision.result;
    const says = `A consumer requests ${count}, and gets ${grant?.deliveries.length ?? 0}`;
    const left = refused?.deliveries.length ?? 0;
    const next = {
      ...made.world,
      wanted: left > 0 ? [left, ...others] : others,
      askAt: left > 0 ? (refused?.until ?? now) : 0,
    };
    if (!grant) return add(`${says}.`, next);
    const arrived = (at: number): World => {
      const own = this.#parts.arrivedGrant(grant, now, at);
      const startsUntilAt = this.#parts.startsUntil(own, at, at, this.#settings.timeoutMs);
      const holder = { grant: own, grantedAt: at, startsUntilAt, starts: [] };
      return { ...next, holders: [...next.holders, holder] };
    };
    add(`${says}.`, arrived(now));
    if (world.delays > 0) add(`${says}; the answer is slow.`, arrived(now + tickMs));
    if (world.faults > 0) add(`${says}; the answer is lost.`, { ...next, faults: world.faults - 1 }, true);
  }

  #holderSteps(world: World, i: number, add: Adder<World>) {
    const holder = world.holders[i];
    if (!holder || holder.grantedAt > world.now) return;
    if (mayStart(holder, world.now)) add(`${nameOf(i)} starts an attempt.`, this.#started(world, i, holder));
    const isOver = nextAt(holder) === undefined;
    add(`${nameOf(i)} settles its lease${isOver ? "" : " early"}.`, this.#settled(world, i, holder));
  }

  /** The rate as the receiver counts it: no start before its time, by as much as something was late. */
  #started(world: World, i: number, holder: Holder): World {
    const { everyMs, burst, tickMs, delays } = this.#scenario;
    const { now, usedUpTo } = world;
    const earliest = usedUpTo - (burst - 1) * everyMs - delays * tickMs;
    const holders = world.holders.with(i, { ...holder, starts: [...holder.starts, now] });
    const next = { ...world, holders, usedUpTo: Math.max(usedUpTo, now) + everyMs };
    if (now >= earliest) return next;
    return { ...next, wrong: `An attempt starts ${(earliest - now) / 1000} s before the rate allows it.` };
  }

  #settled(world: World, i: number, holder: Holder): World | undefined {
    const { grant, starts } = holder;
    const tat = slotsAfter(holder).tat();
    const request = {
      lease: grant.id,
      signals: starts.map((at) => signalOf(at, true)),
      left: grant.deliveries.length - starts.length,
      ...(tat !== undefined && { tatInMs: tat - world.now }),
    };
    const made = called(this.#parts, world, "current", (state) =>
      this.#parts.settle(state, request, this.#settings, world.now, 0),
    );
    return made && { ...made.world, holders: world.holders.toSpliced(i, 1) };
  }
}

function nameOf(i: number): string {
  return `Consumer ${i + 1}`;
}

function faultSteps(world: World, add: Adder<World>) {
  if (world.current) add("The gate is evicted from memory.", evicted(world));
  for (const i of world.holders.keys())
    add(`${nameOf(i)} dies.`, { ...world, holders: world.holders.toSpliced(i, 1) });
}

const slotsOf = new WeakMap<Holder, SendSlots>();

/** The production's send slots, after the past starts. They do not change any more. */
function slotsAfter(holder: Holder): SendSlots {
  const known = slotsOf.get(holder);
  if (known) return known;
  const slots = sendSlotsOf(holder.grant, holder.grantedAt);
  for (const at of holder.starts) {
    slots.claim();
    slots.use(at);
  }
  slotsOf.set(holder, slots);
  return slots;
}

/** When it may start another attempt; undefined when its lease has no more time or no more slots. */
function nextAt(holder: Holder): number | undefined {
  const at = slotsAfter(holder).nextAt();
  return at !== undefined && at < holder.startsUntilAt ? at : undefined;
}

function mayStart(holder: Holder, now: number): boolean {
  const at = nextAt(holder);
  return at !== undefined && at <= now && now < holder.startsUntilAt && slotsAfter(holder).isFree(now);
}

/** Nothing that may start or be settled is left. */
function isPrompt({ holders, alarmAt, now }: World): boolean {
  const isDue = alarmAt !== null && alarmAt <= now;
  return !isDue && holders.every((holder) => (nextAt(holder) ?? now) > now);
}

/** Past sends count by the slots that they leave, and a rate that is not used up counts as never used. */
function keyOf(world: World): string {
  const { now, faults, delays, wanted, askAt, holders, usedUpTo, alarmAt, storage, current, wrong } = world;
  const own = [now, faults, delays, wanted, Math.max(askAt, now), Math.max(usedUpTo, now), alarmAt, wrong];
  return withShortNames(JSON.stringify(own), sorted(holders.map(holderKey)), [
    storage && stateKey(storage),
    current && memoryKey(current.memory),
  ]);
}

const holderKey = remembered((holder: Holder) => {
  const { grant, grantedAt, startsUntilAt, starts } = holder;
  return JSON.stringify([grant.id, grantedAt, startsUntilAt, starts.length, slotsAfter(holder).tat()]);
});

const memoryKey = remembered(({ state, written, isBehind, alarmAt, askedBefore, leaseMs }: GateMemory) => {
  const known = written && [written.at, [...written.leases].sort()];
  return stateKey(state).text + JSON.stringify([known, isBehind, alarmAt, askedBefore, leaseMs]);
});

const stateKey = remembered((state: GateState) => {
  const { tat, leases, presumed, slack, turns, crashLoop, drainSchedule, forgottenAt } = state;
  const held = leases.map(({ id, slots, width, tat: own, expiresAt, lone, inherited }) => {
    return [id, slots, width, own, expiresAt, lone, inherited];
  });
  return JSON.stringify([
    ...[tat, held, presumed.map(({ expiresAt }) => expiresAt), slack],
    ...[turns, crashLoop, drainSchedule, forgottenAt],
  ]);
});
