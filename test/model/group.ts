/**
 * The group's model: destinations' gates and their group's object, and the Workers that carry blocks and reports
 * between them. Each call is a step. The judged quantity is the receiver's view: how many attempts are really in
 * flight.
 */
import { called as callsOf, deal } from "../../src/core/group/deal.ts";
import {
  type GroupSettings,
  type GroupState,
  groupMustBeStored,
  newGroupState,
} from "../../src/core/group/group-state.ts";
import type { Answered, BlockNeeds } from "../../src/core/group/member.ts";
import { afterGroupReport, type GroupReport } from "../../src/core/group/report.ts";
import type { Grant } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { type Adder, adderTo, type Model, type Step, type Steps } from "./explorer.ts";
import { partOf, remembered, withShortNames } from "./gate-key.ts";
import { busyObject, called, evicted, production as gate, requestOf, signalOf } from "./gate-object.ts";
import { secondsOf } from "./gate-text.ts";
import { BEGINNING, type ObjectWorld } from "./gate-world.ts";

/** The production functions that the model is made of; a broken variant replaces one of them. */
export const groupProduction = { ...gate, deal, afterGroupReport, groupMustBeStored };

export type GroupParts = typeof groupProduction;

/** How far the clock moves: to the end of a block, or until its leases have expired as well. */
const TICKS = [1_000, 20_000] as const;
/** How long holders start attempts, and how long an attempt may take. */
const SHORT_MS = 2_000;

export type GroupScenario = Readonly<{
  maxConcurrency: number;
  /** For each member, each of another tenant, the deliveries that it requests, one request after the other. */
  wanted: readonly (readonly number[])[];
  /** The most deaths, evictions and lost calls. */
  faults: number;
  /** How often the clock moves although a process could act. */
  delays: number;
  /** How often it moves at all, by a second or by twenty. */
  ticks: number;
}>;

type Asking =
  | Readonly<{ phase: "needs"; needs: BlockNeeds }>
  | Readonly<{ phase: "answered"; answered: Answered }>;

type Member = Readonly<{
  gate: ObjectWorld;
  wanted: readonly number[];
  /** The first of them has to wait until then. */
  askAt: number;
  asking?: Asking;
}>;

/** An invocation with a lease, and when it has started its attempts. */
type Holder = Readonly<{ member: number; grant: Grant; startsUntilAt: number; startedAt?: number }>;

type World = Readonly<{
  now: number;
  faults: number;
  delays: number;
  ticks: number;
  group: GroupState;
  stored: GroupState;
  members: readonly Member[];
  holders: readonly Holder[];
  /** Attempts of invocations that have died, and until when they may continue. */
  orphans: readonly Readonly<{ slots: number; until: number }>[];
}>;

export function groupModel(scenario: GroupScenario, parts: GroupParts = groupProduction): Model<World> {
  const model = new GroupModel(scenario, parts);
  return {
    initial: model.beginning(),
    steps: (world) => model.steps(world),
    broken: (world) => model.broken(world),
    keyOf,
    calmed: (world) => ({ ...world, faults: 0, delays: 0, ticks: Number.POSITIVE_INFINITY }),
    calm: (world) => model.calm(world),
  };
}

class GroupModel {
  readonly #scenario: GroupScenario;
  readonly #parts: GroupParts;
  readonly #limits: GateSettings;
  readonly #settings: GroupSettings;

  constructor(scenario: GroupScenario, parts: GroupParts) {
    this.#scenario = scenario;
    this.#parts = parts;
    const breaker = {
      failureRatio: 0.5,
      minAttempts: 5,
      windowMs: 60_000,
      cooldownMs: 10_000,
      maxCooldownMs: 10_000,
    };
    const rate = { ratePerSecond: 10_000, rateBurst: 10_000 };
    this.#limits = { ...rate, paused: false, maxConcurrency: 20, timeoutMs: SHORT_MS, breaker };
    this.#settings = { ...rate, maxConcurrency: scenario.maxConcurrency, breaker };
  }

  beginning(): World {
    const { faults, delays, ticks, wanted } = this.#scenario;
    const group = newGroupState(BEGINNING);
    const member = { gate: busyObject(this.#limits), askAt: BEGINNING };
    const members = wanted.map((own) => ({ ...member, wanted: own }));
    return {
      ...{ now: BEGINNING, faults, delays, ticks, group, stored: group, members },
      ...{ holders: [], orphans: [] },
    };
  }

  broken(world: World): string | undefined {
    const { maxConcurrency } = this.#scenario;
    const inFlight =
      sumOf(world.holders.filter(({ startedAt }) => startedAt !== undefined).map(({ grant }) => grant)) +
      sumOf(world.orphans.filter(({ until }) => until > world.now));
    return inFlight > maxConcurrency
      ? `${inFlight} attempts are in flight, of ${maxConcurrency} at most.`
      : undefined;
  }

  steps(world: World): Steps<World> {
    const steps: Steps<World> = [];
    const add = adderTo(steps);
    for (const i of world.members.keys()) this.#memberSteps(world, i, add);
    for (const i of world.holders.keys()) this.#holderSteps(world, i, add);
    if (world.faults > 0) faultSteps({ ...world, faults: world.faults - 1 }, adderTo(steps, true));
    const delays = world.delays - (isPrompt(world) ? 0 : 1);
    if (world.ticks === 0 || delays < 0) return steps;
    for (const ms of TICKS)
      add(`${secondsOf(world.now + ms)} have passed.`, { ...this.#passed(world, ms), delays });
    return steps;
  }

  calm(world: World): Step<World> | undefined {
    const isOver =
      world.holders.length === 0 &&
      world.members.every(({ wanted, asking }) => wanted.length === 0 && asking === undefined);
    if (isOver) return undefined;
    const [first] = this.steps({ ...world, ticks: 0 });
    if (first) return { ...first, to: { ...first.to, ticks: world.ticks } };
    return { says: `${secondsOf(world.now + TICKS[0])} have passed.`, to: this.#passed(world, TICKS[0]) };
  }

  /** The group's alarm fires. Unsettled leases expire. */
  #passed(world: World, ms: number): World {
    const now = world.now + ms;
    const holders = world.holders.filter(({ startedAt, startsUntilAt }) =>
      startedAt === undefined ? now < startsUntilAt : now < startedAt + SHORT_MS,
    );
    return this.#grouped({ ...world, now, ticks: world.ticks - 1, holders }, world.group);
  }

  #memberSteps(world: World, i: number, add: Adder<World>) {
    const member = world.members[i];
    if (!member) return;
    const { wanted, asking, askAt } = member;
    const [count = 0] = wanted;
    if (!asking && count > 0 && askAt <= world.now)
      this.#asked(world, i, {}, (says) => `${nameOf(i)} requests ${count} from its gate, and ${says}.`, add);
    if (asking?.phase === "needs") this.#dealt(world, i, asking.needs, add);
    if (asking?.phase === "answered")
      this.#asked(
        world,
        i,
        { answered: asking.answered },
        (says) => `${nameOf(i)} requests again from its gate, and ${says}.`,
        add,
      );
  }

  #asked(
    world: World,
    i: number,
    group: Readonly<{ answered?: Answered }>,
    text: (says: string) => string,
    add: Adder<World>,
  ) {
    const member = world.members[i];
    if (!member) return;
    const { now } = world;
    const [count = 0, ...others] = member.wanted;
    const from = (member.gate.current?.memory.state.granted ?? 0) * 100 + world.faults * 10_000;
    const deliveries = Array.from({ length: count }, (_, place) => from + place);
    const request = { ...requestOf("backlog", deliveries, SHORT_MS), group: { name: "g", ...group } };
    const made = called(this.#parts, { ...member.gate, now }, "current", (state) =>
      this.#parts.admit(state, request, this.#limits, now),
    );
    if (!made) return;
    const { grant, refused, needs, unused } = made.decision.result;
    const { asking: _, ...idle } = { ...member, gate: made.world };
    if (needs)
      return add(text("needs a block"), withMember(world, i, { ...idle, asking: { phase: "needs", needs } }));
    if (!grant) {
      const until = refused?.until ?? now;
      return add(
        text("is refused"),
        this.#unused(withMember(world, i, { ...idle, askAt: until }), i, group, unused),
      );
    }
    const left = count - grant.deliveries.length;
    const wanted = left > 0 ? [left, ...others] : others;
    const own = this.#parts.arrivedGrant(grant, now, now);
    const holder = { member: i, grant: own, startsUntilAt: this.#parts.startsUntil(own, now, now, SHORT_MS) };
    const after = withMember({ ...world, holders: [...world.holders, holder] }, i, {
      ...idle,
      wanted,
      askAt: now,
    });
    add(text(`gets a lease of ${grant.slots}`), this.#unused(after, i, group, unused));
  }

  /** A block that is not needed is returned. */
  #unused(world: World, i: number, { answered }: Readonly<{ answered?: Answered }>, unused?: true): World {
    const answer = answered?.answer;
    if (!unused || answer?.kind !== "block") return world;
    const ends = [{ block: answer.block.id, slots: 0, unused: answer.block.sends }];
    return this.#reported(world, i, { ends });
  }

  #dealt(world: World, i: number, needs: BlockNeeds, add: Adder<World>) {
    const { askedAt, slots, sends, leaseMs, ends, succeeded } = needs;
    const member = world.members[i];
    if (!member) return;
    const request = { slots, sends, leaseMs, report: reportOf(i, { ends, succeeded }) };
    const { state, answer } = this.#parts.deal(world.group, request, this.#settings, world.now, 0);
    const answered = { answer, askedAt };
    const after = withMember(world, i, { ...member, asking: { phase: "answered", answered } });
    const says =
      answer.kind === "block"
        ? `The group gives ${nameOf(i)} a block of ${answer.block.slots}`
        : `The group refuses ${nameOf(i)}`;
    add(`${says}.`, this.#grouped(after, state));
    const { asking: _, ...idle } = member;
    if (world.faults > 0)
      add(
        `${says}; the answer is lost.`,
        this.#grouped(
          withMember({ ...world, faults: world.faults - 1 }, i, { ...idle, askAt: world.now }),
          state,
        ),
        true,
      );
  }

  #holderSteps(world: World, i: number, add: Adder<World>) {
    const holder = world.holders[i];
    if (!holder) return;
    const { startedAt, startsUntilAt, grant } = holder;
    const who = `${nameOf(holder.member)} with a lease of ${grant.slots}`;
    if (startedAt === undefined && world.now < startsUntilAt)
      add(`${who} sends.`, { ...world, holders: world.holders.with(i, { ...holder, startedAt: world.now }) });
    if (startedAt === undefined) return;
    const says = `${who} is answered, and settles it`;
    const { world: settled, over } = this.#settled(world, i, holder);
    add(`${says}.`, over ? this.#reported(settled, holder.member, over) : settled);
    if (over && world.faults > 0)
      add(`${says}; the report is lost.`, { ...settled, faults: world.faults - 1 }, true);
  }

  #settled(world: World, i: number, { member: of, grant }: Holder) {
    const member = world.members[of];
    const without = { ...world, holders: world.holders.toSpliced(i, 1) };
    const signals = grant.deliveries.map(() => signalOf(world.now, true));
    const settlement = { lease: grant.id, signals, left: 0 };
    const made =
      member &&
      called(this.#parts, { ...member.gate, now: world.now }, "current", (state) =>
        this.#parts.settle(state, settlement, this.#limits, world.now, 0),
      );
    if (!member || !made) return { world: without };
    return { world: withMember(without, of, { ...member, gate: made.world }), over: made.decision.over };
  }

  #reported(world: World, i: number, part: Partial<GroupReport>): World {
    const { state } = this.#parts.afterGroupReport(
      world.group,
      reportOf(i, part),
      this.#settings,
      world.now,
      0,
    );
    return this.#grouped(world, state);
  }

  /** The group's object after a decision: stored if it must be, and the members called whose turn has come. */
  #grouped(world: World, decided: GroupState): World {
    const { state, members } = callsOf(decided, this.#settings, world.now);
    const stored = this.#parts.groupMustBeStored(world.group, state) ? state : world.stored;
    const calledOnes = new Set(members);
    return {
      ...world,
      group: state,
      stored,
      members: world.members.map((one, i) => (calledOnes.has(`m${i}`) ? { ...one, askAt: world.now } : one)),
    };
  }
}

function faultSteps(world: World, add: Adder<World>) {
  for (const [i, member] of world.members.entries())
    if (member.gate.current)
      add(
        `The gate of ${nameOf(i)} is evicted from memory.`,
        withMember(world, i, { ...member, gate: evicted(member.gate) }),
      );
  add("The group is evicted from memory.", {
    ...world,
    group: { ...world.stored, incarnation: world.group.incarnation + 1 },
  });
  for (const [i, { member, grant, startedAt }] of world.holders.entries()) {
    const orphans =
      startedAt === undefined
        ? world.orphans
        : [...world.orphans, { slots: grant.slots, until: startedAt + SHORT_MS }];
    add(`${nameOf(member)} with a lease of ${grant.slots} dies.`, {
      ...world,
      holders: world.holders.toSpliced(i, 1),
      orphans,
    });
  }
}

/** All that remains is to await answers. */
function isPrompt({ members, holders, now }: World): boolean {
  return (
    members.every(({ asking, wanted, askAt }) => !asking && (wanted.length === 0 || askAt > now)) &&
    holders.every(({ startedAt }) => startedAt !== undefined)
  );
}

function withMember(world: World, i: number, member: Member): World {
  return { ...world, members: world.members.with(i, member) };
}

function reportOf(i: number, part: Partial<GroupReport>): GroupReport {
  const none = { ends: [], succeeded: 0, failed: 0, unreached: 0, limited: 0, waitMs: 0 };
  return { ...none, member: `m${i}`, tenant: `t${i}`, isOneHost: true, ...part };
}

function nameOf(i: number): string {
  return `Member ${i + 1}`;
}

function sumOf(all: readonly Readonly<{ slots: number }>[]): number {
  return all.reduce((sum, { slots }) => sum + slots, 0);
}

/** No rate limits anything here, nothing fails, and nobody moves to another group: rates, votes, figures and names decide nothing. */
function keyOf({ now, faults, delays, ticks, group, stored, members, holders, orphans }: World): string {
  const own = [
    [now, faults, delays, ticks],
    members.map(({ gate, wanted, askAt }) => [wanted, Math.max(askAt, now), gate.current?.memory.isBehind]),
    orphans.filter(({ until }) => until > now),
  ];
  const parts = members.flatMap(({ gate: { storage, current }, asking }) => [
    asking && partOf(asking),
    storage && gateKey(storage),
    current && gateKey(current.memory.state),
  ]);
  return withShortNames(
    JSON.stringify(own),
    [groupKey(group), groupKey(stored)],
    parts,
    holders.map(holderKey),
  );
}

const holderKey = remembered(({ member, grant, startedAt, startsUntilAt }: Holder) =>
  JSON.stringify([member, grant.id, startedAt, startsUntilAt]),
);

const groupKey = remembered(({ blocks, ring, served }: GroupState) => {
  const held = blocks.map(({ id, member, slots, fresh, expiresAt }) => [id, member, slots, fresh, expiresAt]);
  return JSON.stringify([held, ring, served]);
});

const gateKey = remembered(({ leases, membership, slack, turns }: Parameters<GroupParts["admit"]>[0]) => {
  const held = leases.map(({ id, slots, expiresAt, share }) => [id, slots, expiresAt, share]);
  return JSON.stringify([held, membership && [membership.blocks, membership.refusal], slack, turns]);
});
