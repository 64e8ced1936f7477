/** The steps of an invocation in the gate's model: it requests a lease, gets an answer, uses it, records and settles. */
import type { AdmitRequest } from "../../src/core/admit.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import type { Adder } from "./explorer.ts";
import {
  afterRefusal,
  readiness,
  recorded,
  waitingIn,
  withMessage,
  withSettledEnds,
} from "./gate-deliveries.ts";
import { attemptSteps, died, ended, settleRequestOf, slow } from "./gate-leases.ts";
import { called, type Parts, requestOf, withKnown } from "./gate-object.ts";
import { withLostLease, wrongAnswer, wrongFormer, wrongSettlement } from "./gate-quiet.ts";
import { answerText, gateName, namesOf, runName } from "./gate-text.ts";
import {
  CALL_MS,
  chainOf,
  type Item,
  type Run,
  TICK_MS,
  type Which,
  type World,
  withoutRun,
  withRun,
} from "./gate-world.ts";

export function newRun(
  lane: Run["lane"],
  deliveries: readonly number[],
  { now, paused }: Pick<World, "now" | "paused">,
): Run {
  // Reading has taken a millisecond.
  const times = { slowUntil: 0, readAt: now - 1, askedAt: 0, grantedAt: 0, readyAt: 0, heldUntil: 0 };
  return {
    lane,
    phase: "loaded",
    deliveries,
    paused,
    ...times,
    slots: 0,
    settled: [],
    refused: [],
    items: [],
  };
}

export function withNewRun(world: World, run: Run): World {
  return { ...world, runs: [...world.runs, run] };
}

export class Invocations {
  readonly #settings: GateSettings;
  readonly #parts: Parts;
  /** The most deliveries that a drain leases. */
  readonly #portion: number | undefined;

  constructor(settings: GateSettings, parts: Parts, portion: number | undefined) {
    this.#settings = settings;
    this.#parts = parts;
    this.#portion = portion;
  }

  addSteps(world: World, i: number, add: Adder<World>) {
    const run = world.runs[i];
    if (!run || world.now < run.slowUntil) return;
    const name = runName(run);
    switch (run.phase) {
      case "loaded":
        return add(`${name} requests a lease.`, withRun(world, i, { phase: "asking", askedAt: world.now }));
      case "asking":
        if (world.now - run.askedAt > CALL_MS)
          return add(`${name} gets no answer.`, unreachable(world, i, run));
        this.#decided(world, i, "current", add);
        return this.#decided(world, i, "former", add);
      case "answered":
        if (world.now - run.askedAt > CALL_MS)
          return add(`${name} gets no answer.`, unreachable(world, i, run));
        return add(`${name} gets the answer.`, this.#arrived(world, i));
      case "loading":
        add(`${name} reads D1 again.`, readAgain(world, i, run));
        if (world.delays > 0 && run.slowUntil === 0)
          add(`${name} reads D1 again, slowly.`, withRun(world, i, slow(run, "loading", world.now)));
        return;
      case "ready":
        attemptSteps(world, i, run, this.#parts, add);
        return add(
          `${name} continues, and requests more waiting deliveries.`,
          this.#following(world, i, run),
        );
      case "attempted":
        return add(`${name} records what has come of it.`, recorded(world, i, run));
      case "recorded":
        add(`${name} settles its lease.`, this.#settled(world, i, "current"));
        if (world.former)
          add(`${name} settles its lease with the former instance.`, this.#settled(world, i, "former"));
    }
  }

  /** The faults of an invocation. */
  addFaults(world: World, i: number, add: Adder<World>) {
    const run = world.runs[i];
    if (!run) return;
    const name = runName(run);
    const chain = chainOf(world, run);
    const isSending = chain.some(({ items }) => items.some(({ state }) => state === "sending"));
    if (run.phase !== "loaded" && chain[0] === run)
      add(`${name} dies${isSending ? " while it sends" : ""}.`, died(world, run));
    if (run.phase !== "recorded") return;
    add(`${name} cannot reach the gate to settle its lease.`, ended(withLostLease(world), i));
    add(`${name} settles its lease, and settles it again.`, this.#settled(world, i, "current", true));
  }

  /** The drain's next lease, which it requests while this one is in use. */
  #following(world: World, i: number, run: Run): World | undefined {
    if (this.#portion === undefined || run.lane !== "backlog" || run.isFollowed) return undefined;
    if (!run.grant || run.refused.length > 0) return undefined;
    const own = run.grant.grant.deliveries;
    const others = waitingIn(world).filter((one) => !own.includes(one));
    if (others.length === 0) return undefined;
    const { chain = run.grant.grant.id, heldUntil } = run;
    const next = { ...newRun("backlog", others, world), chain, succeeds: run.grant.grant.id, heldUntil };
    const followed = withRun(world, i, { chain, isFollowed: true });
    return withNewRun(followed, { ...next, phase: "asking", askedAt: world.now });
  }

  /** The gate's decision, whose answer arrives at once, or late. */
  #decided(world: World, i: number, by: Which, add: Adder<World>) {
    const run = world.runs[i];
    if (!run || (!world[by] && by === "former")) return;
    const settings = { ...this.#settings, paused: run.paused };
    const made = called(this.#parts, world, by, (state) =>
      this.#parts.admit(state, this.#requestOf(run), settings, world.now),
    );
    if (!made) return;
    const { grant } = made.decision.result;
    const answered = answeredRun(run, made, by);
    const known = grant ? withKnown(made.world, by, grant.id) : made.world;
    const ofFormer = grant ? wrongFormer(known) : undefined;
    const wrong = by === "current" ? wrongAnswer(known, made.decision.result) : ofFormer;
    const kept = wrong === undefined ? known : { ...known, wrong };
    const says = `${gateName(by, world)} gives ${runName(run, true)} ${answerText(answered)}`;
    const next = withRun(kept, i, answered);
    add(`${says}.`, this.#arrived(next, i));
    if (world.delays > 0)
      add(`${says}; the answer is slow.`, withRun(next, i, slow(answered, "answered", world.now)));
    if (grant && world.faults > 0)
      add(
        `${says}; the answer is lost, and the call repeated.`,
        withRun(withLostLease({ ...kept, faults: world.faults - 1 }), i, run),
        true,
      );
  }

  #requestOf({ lane, deliveries, askedAt, readAt, succeeds }: Run): AdmitRequest {
    const most = this.#portion;
    return {
      ...requestOf(lane, deliveries),
      lookedUpMsAgo: lane === "backlog" ? 0 : askedAt - readAt,
      ...(lane === "backlog" && most !== undefined && { most }),
      ...(succeeds !== undefined && { succeeds }),
    };
  }

  /** The answer is there. A drain reads D1 now, as does a consumer whose read is out of date. */
  #arrived(world: World, i: number): World | undefined {
    const run = world.runs[i];
    if (!run) return undefined;
    const { grant, lane, settled, readAt, askedAt, refused, againAt } = run;
    if (!grant) return afterRefusal(withoutRun(world, i), run, refused, againAt);
    const usable = this.#parts.arrivedGrant(grant.grant, askedAt, world.now);
    const arrived = { ...run, grant: { ...grant, grant: usable }, grantedAt: world.now, slowUntil: 0 };
    const doubtful = this.#parts.settledSince({ grant: usable, settled }, readAt, world.now);
    if (lane === "backlog" || run.readsAgain || doubtful.length > 0)
      return withRun(world, i, { ...arrived, phase: "loading" });
    return withRun(world, i, { ...arrived, phase: "ready", readyAt: world.now, slots: usable.slots });
  }

  /** @param repeats whether it will be settled once more */
  #settled(world: World, i: number, by: Which, repeats = false): World | undefined {
    const run = world.runs[i];
    if (!run?.grant) return undefined;
    const { id } = run.grant.grant;
    const request = settleRequestOf(run, id);
    // An invocation that continues requests again without a message.
    const continues = this.#portion !== undefined && run.lane === "backlog" && !run.isFollowed;
    const goesOn = continues && run.refused.length === 0;
    const settings = { ...this.#settings, paused: run.paused };
    const isKnown = world[by]?.memory.state.leases.some((one) => one.id === id && one.expiresAt > world.now);
    const made = called(this.#parts, world, by, (state) =>
      this.#parts.settle(state, goesOn ? { ...request, continues } : request, settings, world.now, 0),
    );
    if (!made) return undefined;
    const holds = request.signals.map(({ holdUntil = 0 }) => holdUntil);
    const isTold = by === "current" && isKnown;
    const heldUntil = isTold ? Math.max(made.world.heldUntil, ...holds) : made.world.heldUntil;
    const wrong = by === "current" ? wrongSettlement(world, made.world, id) : undefined;
    const noted = isTold ? withSettledEnds(made.world, id) : made.world;
    const known = { ...noted, heldUntil, ...(wrong !== undefined && { wrong }) };
    // The next granting instance does not learn of it.
    const isLost = by === "former" && !isKnown;
    const settled = isLost ? withLostLease(known) : known;
    if (repeats) return settled;
    return ended({ ...settled, drains: settled.drains + (goesOn ? 1 : 0) }, i);
  }
}

function answeredRun(
  run: Run,
  { decision, world }: NonNullable<ReturnType<typeof called<World, ReturnType<Parts["admit"]>>>>,
  by: Which,
): Run {
  const { grant, refused, inFlight, settled = [], readAgain } = decision.result;
  const instance = world[by];
  const lease = instance?.memory.state.leases.find(({ id }) => id === grant?.id);
  const held = inFlight?.deliveries ?? [];
  const until = by === "current" ? world.heldUntil : (instance?.heldUntil ?? 0);
  return {
    ...run,
    phase: "answered",
    ...(grant && {
      grant: {
        grant,
        knows: instance?.knows ?? [],
        over: by === "current" ? grant.deliveries.filter((i) => world.deliveries[i]?.end?.isSettled) : [],
        expiresAt: lease?.expiresAt ?? 0,
        heldUntil: until > world.now ? until : 0,
      },
    }),
    ...(readAgain && { readsAgain: readAgain }),
    settled: settled.map(({ delivery, msAgo }) => ({ delivery, msAgo })),
    refused: refused?.deliveries ?? [],
    againAt: held.length > 0 ? Math.max(inFlight?.until ?? 0, world.now + TICK_MS) : undefined,
    items: (grant?.deliveries ?? []).map((delivery) => ({ delivery, state: "unsent", startedAt: 0 })),
  };
}

/** The granted deliveries are read under the lease. From now on a drain's connections are those of the newest lease. */
function readAgain(world: World, i: number, run: Run): World {
  const source = run.lane === "backlog" ? "drain" : "queue";
  const readinessIn = ({ delivery }: Item) => readiness(world, delivery, source);
  const items = run.items.filter((item) => readinessIn(item) === "due");
  const isEarly = run.items.some((item) => readinessIn(item) === "early");
  const againAt = isEarly ? (run.againAt ?? world.now + TICK_MS) : run.againAt;
  const slots = run.grant?.grant.slots ?? 0;
  const ready = withRun(world, i, {
    phase: "ready",
    readyAt: world.now,
    items,
    slowUntil: 0,
    slots,
    againAt,
  });
  if (run.chain === undefined) return ready;
  return { ...ready, runs: ready.runs.map((one) => (one.chain === run.chain ? { ...one, slots } : one)) };
}

function unreachable(world: World, i: number, run: Run): World {
  const rest = withoutRun(world, i);
  if (run.lane !== "backlog") return withMessage(rest, run.deliveries, world.now + TICK_MS);
  return run.succeeds === undefined ? { ...rest, drains: rest.drains + 1 } : rest;
}

export function consumerText(named: readonly number[]): string {
  return `The message of ${namesOf(named)} comes; its consumer reads D1`;
}
