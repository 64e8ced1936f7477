/**
 * The model of what is recorded of deliveries: the production's SQL for packs and rows, its triggers, and the functions
 * that write with them, called by consumers, a drain, the sweep and an operator at the same time. No gate or clock
 * separates them here: whatever could be due is due.
 */

import { eventAt, indexOf } from "../../src/core/bundle.ts";
import { readinessOf } from "../../src/core/triage.ts";
import {
  attemptDisposition,
  currentRow,
  finish,
  inFlightRow,
  waitingRow,
} from "../../src/delivery/outcome.ts";
import type { LoadedDelivery } from "../../src/store/deliveries.ts";
import type { DeliveryRecord, DeliveryRow } from "../../src/store/delivery.ts";
import { retryPolicyOf } from "../../src/store/destination.ts";
import { knownOf, rowsIn } from "../../src/store/packs.ts";
import { recordOutcomes } from "../../src/store/record.ts";
import { requeueEnded } from "../../src/store/requeue.ts";
import { markWaiting, recoverOverdue } from "../../src/store/sweep.ts";
import { cancelWaitingDeliveries } from "../../src/store/waiting.ts";
import type { Model, Step } from "./explorer.ts";
import {
  type Answer,
  type Content,
  type Edit,
  type Program,
  type Sqlite,
  type Statement,
  sqlite,
  standingOf,
} from "./sqlite.ts";

const NOW = 1_000_000_000;
const END_OF_TIME = 9_000_000_000_000;
const BUNDLE = 1;
const DESTINATION = "dst";
const PAIR = [BUNDLE, DESTINATION] as const;
// The rows of deliveries come first, because one of their triggers reads packs.
const TABLES = ["deliveries", "packs"];

export type Actor =
  /** A consumer of the queue with a message of these events, by their indexes in the bundle. */
  | Readonly<{ kind: "consumer"; name: string; indexes: readonly number[]; outcomes: readonly Outcome[] }>
  /** A drain, for whatever waits. */
  | Readonly<{ kind: "drain"; name: string; outcomes: readonly Outcome[] }>
  | Readonly<{ kind: "sweep for lost" | "sweep for overdue" | "requeue" | "cancel"; name: string }>;

/** The outcome of an attempt, or of its absence; `late`: it is in flight at first. */
export type Outcome = "delivered" | "failed" | "refused" | "late";

export type RecordScenario = Readonly<{
  indexes: readonly number[];
  actors: readonly Actor[];
  /** The most calls that fail for their caller. */
  faults: number;
}>;

/** The phase of an actor. */
type Run = Readonly<{
  phase: "idle" | "reading" | "attempting" | "writing" | "late" | "over";
  answers: readonly Answer[];
  /** The due deliveries, as it has read them. */
  read: readonly (DeliveryRow | undefined)[];
  due: readonly number[];
  /** What it writes. */
  rows: readonly DeliveryRow[];
  isLate: boolean;
}>;

type World = Readonly<{
  content: Content;
  faults: number;
  runs: readonly Run[];
  late: readonly (readonly Statement[])[];
  wrong?: string;
}>;

export type RecordParts = Readonly<{ edit?: Edit; schema?: string }>;

export function recordModel(scenario: RecordScenario, { edit, schema }: RecordParts = {}): Model<World> {
  const db = sqlite(TABLES, edit, schema);
  const idle: Run = { phase: "idle", answers: [], read: [], due: [], rows: [], isLate: false };
  const initial = {
    content: db.empty,
    faults: scenario.faults,
    runs: scenario.actors.map(() => idle),
    late: [],
  };

  async function steps(world: World): Promise<Step<World>[]> {
    const found: Step<World>[] = [];
    const add = (says: string, to: World, isFault = false) =>
      found.push({ says, to, ...(isFault && { isFault }) });
    for (const [i, actor] of scenario.actors.entries()) {
      const run = world.runs[i] ?? idle;
      const change = (to: Partial<Run>, others: Partial<World> = {}): World => ({
        ...world,
        ...others,
        runs: world.runs.with(i, { ...run, ...to }),
      });
      if (run.phase === "over") continue;
      if (run.phase === "attempting" || run.phase === "late") {
        for (const outcome of run.phase === "late" ? (["delivered", "failed"] as const) : outcomesOf(actor)) {
          const rows = rowsAfter(run, outcome);
          const isLate = outcome === "late";
          add(outcomeText(actor, run, outcome), change({ phase: "writing", answers: [], rows, isLate }));
        }
        continue;
      }
      const program = programOf(actor, run);
      const standing = await standingOf(program, run.answers);
      if (standing.kind === "failed") {
        add(`${actor.name} repeats its write.`, change({ answers: [] }));
        continue;
      }
      if (standing.kind === "ended") {
        const next = afterProgram(scenario, actor, run, standing.value);
        const wrong = run.phase === "writing" ? lostEnd(db, world.content, run.rows) : undefined;
        add(endText(actor, run), { ...change(next), ...(wrong && { wrong }) });
        continue;
      }
      const { statements } = standing;
      const { content, answer } = db.execute(world.content, statements);
      const says = callText(actor, run);
      const goesOn = (given: Answer, others: Partial<World>) => {
        const phase = run.phase === "idle" ? "reading" : run.phase;
        return change({ phase, answers: [...run.answers, given] }, others);
      };
      const judged = (to: World) => {
        const next = withJudgement(db, world.content, to, actor.kind === "requeue");
        const wrong =
          run.phase === "writing" ? outOfTime(db, world.content, to.content, run.rows) : undefined;
        return wrong ? { ...next, wrong } : next;
      };
      add(`${says}.`, judged(goesOn(answer, { content })));
      if (world.faults === 0 || run.phase !== "writing") continue;
      const faults = world.faults - 1;
      add(`${says}; the answer is lost.`, judged(goesOn("lost", { content, faults })), true);
      add(
        `${says}, and gives up: it may still be executed.`,
        goesOn("lost", { faults, late: [...world.late, statements] }),
        true,
      );
    }
    for (const [i, statements] of world.late.entries()) {
      const { content } = db.execute(world.content, statements);
      const to = { ...world, content, late: world.late.toSpliced(i, 1) };
      add("The write that was given up is executed.", withJudgement(db, world.content, to, false), true);
    }
    return found;
  }

  return {
    initial,
    steps,
    broken: ({ wrong }) => wrong,
    keyOf: (world) => JSON.stringify(world),
    calmed: (world) => ({ ...world, faults: 0, late: [] }),
    calm: async (world) => {
      const [next] = await steps(world);
      if (next) return next;
      return calmStep(db, scenario, world);
    },
  };
}

// ── Actors' steps ──

function outcomesOf(actor: Actor): readonly Outcome[] {
  return "outcomes" in actor ? actor.outcomes : [];
}

/** The program that the actor runs in its phase. */
function programOf(actor: Actor, run: Run): Program<unknown> {
  if (run.phase === "writing") {
    return {
      name: `write ${JSON.stringify(run.rows)}`,
      run: (db) => recordOutcomes({ db }, run.rows, [], NOW),
    };
  }
  switch (actor.kind) {
    case "consumer":
    case "drain":
      return { name: "read", run: (db) => rowsIn(db, [PAIR]) };
    case "sweep for lost":
      return { name: "lost", run: (db) => sweepLost(db) };
    case "sweep for overdue":
      return { name: "overdue", run: (db) => recoverOverdue(db, END_OF_TIME, NOW, 100) };
    case "cancel":
      return { name: "cancel", run: (db) => cancelWaitingDeliveries(db, DESTINATION, NOW, 100) };
    case "requeue":
      return { name: "requeue", run: (db) => requeueAll(db) };
  }
}

/** Every event of the bundle is planned; as the sweep has it, what has neither a bit nor a row waits. */
async function sweepLost(db: D1Database): Promise<void> {
  const known = await knownOf(db, [PAIR]);
  const lost = INDEXES.filter((index) => !known.has(`${eventAt(BUNDLE, index)} ${DESTINATION}`));
  const rows = lost.map((index): DeliveryRecord => {
    return { ...currentRow(loaded(index, undefined)), state: "waiting", reason: "recovered" };
  });
  if (rows.length > 0) await markWaiting(db, rows);
}

/** The indexes of the bundle's events: in both halves of a pack's masks. */
export const INDEXES = [3, 60];

async function requeueAll(db: D1Database): Promise<void> {
  const rows = await rowsIn(db, [PAIR]);
  const ended = rows.filter(({ endedAt }) => endedAt !== null);
  if (ended.length > 0) await requeueEnded({ db }, ended);
}

function afterProgram(scenario: RecordScenario, actor: Actor, run: Run, value: unknown): Partial<Run> {
  if (run.phase === "writing")
    return run.isLate ? { phase: "late", answers: [] } : { phase: "over", answers: [] };
  if (actor.kind !== "consumer" && actor.kind !== "drain") return { phase: "over", answers: [] };
  const rows = value as readonly DeliveryRow[];
  const rowOf = (index: number) => rows.find(({ eventId }) => indexOf(eventId) === index);
  const named = actor.kind === "consumer" ? actor.indexes : scenario.indexes;
  const source = actor.kind === "consumer" ? "queue" : "drain";
  const due = named.filter((index) => isDue(rowOf(index), source));
  return due.length > 0
    ? { phase: "attempting", answers: [], due, read: due.map(rowOf) }
    : { phase: "over", answers: [] };
}

function isDue(row: DeliveryRow | undefined, source: "queue" | "drain"): boolean {
  if (source === "drain" && row?.state !== "waiting") return false;
  const { state, nextAttemptAt, giveUpAt } = {
    state: undefined,
    nextAttemptAt: null,
    ...row,
    giveUpAt: END_OF_TIME,
  };
  const progress = { nextAttemptAt, isInFlight: false, giveUpAt, destinationDeleted: false, erased: false };
  return readinessOf({ state, ...progress }, source, END_OF_TIME - 1).kind === "due";
}

function loaded(index: number, row: DeliveryRow | undefined): LoadedDelivery {
  const event = { id: eventAt(BUNDLE, index), tenant: "acme", type: "t", acceptedAt: NOW, deliverAt: null };
  // Nothing else of a destination is read here.
  const destination = { id: DESTINATION, retry: null } as LoadedDelivery["destination"];
  return { event: { ...event, body: new Uint8Array() }, destination, row };
}

function rowsAfter({ due, read }: Run, outcome: Outcome): readonly DeliveryRow[] {
  return due.flatMap((index, i) => {
    const delivery = loaded(index, read[i]);
    if (outcome === "refused")
      return delivery.row?.state === "waiting"
        ? []
        : [waitingRow(delivery, { reason: "concurrency", until: NOW })];
    if (outcome === "late") return [inFlightRow(delivery, NOW)];
    const exchange = { kind: "response", status: outcome === "delivered" ? 204 : 503 } as const;
    const attempt = { delivery, exchange, startedAt: NOW, endedAt: NOW + 5 } as Parameters<typeof finish>[0];
    return attemptDisposition(finish(attempt, retryPolicyOf({ retry: null }), 0), undefined).row ?? [];
  });
}

// ── Promises ──

type Known = Readonly<{
  state: string;
  attempts: number;
  generation: number;
  endedAt: number | null;
  places: number;
}>;

type PackLine = Readonly<Record<string, number | null>>;

/** The stored state of each delivery, by its index. */
const known = new Map<Content, ReadonlyMap<number, Known>>();

function knownIn(db: Sqlite, content: Content): ReadonlyMap<number, Known> {
  const before = known.get(content);
  if (before) return before;
  const found = new Map<number, Known>();
  const add = (index: number, one: Omit<Known, "places">) =>
    found.set(index, { ...one, places: (found.get(index)?.places ?? 0) + 1 });
  type Line = {
    event_id: number;
    state: string;
    attempts: number;
    generation: number;
    ended_at: number | null;
  };
  for (const { event_id, state, attempts, generation, ended_at } of db.query<Line>(
    content,
    "SELECT * FROM deliveries",
  ))
    add(indexOf(event_id), { state, attempts, generation, endedAt: ended_at });
  for (const pack of db.query<PackLine>(content, "SELECT * FROM packs"))
    for (const index of INDEXES)
      for (const mask of ["waiting", "in_flight", "delivered", "cancelled"]) {
        const [half, bit] = index < 50 ? [0, index] : [1, index - 50];
        if (((pack[`${mask}${half}`] ?? 0) / 2 ** bit) % 2 < 1) continue;
        const state = mask === "in_flight" ? "retrying" : mask;
        add(index, {
          state,
          attempts: mask === "delivered" ? 1 : 0,
          generation: 0,
          endedAt: state === mask && mask !== "waiting" ? 0 : null,
        });
      }
  known.set(content, found);
  return found;
}

const nameOf = (index: number) => `Delivery ${index}`;
const hasEnded = ({ state }: Known) => ["delivered", "dead", "cancelled"].includes(state);

/** With the promise that a change of the database has broken. */
function withJudgement(db: Sqlite, before: Content, to: World, mayRequeue: boolean): World {
  if (to.content === before) return to;
  const [old, now] = [knownIn(db, before), knownIn(db, to.content)];
  const wrong = INDEXES.map((index) => fault(index, old.get(index), now.get(index), mayRequeue)).find(
    Boolean,
  );
  const line = wrong ?? packFault(db, to.content);
  return line ? { ...to, wrong: line } : to;
}

function fault(
  index: number,
  old: Known | undefined,
  now: Known | undefined,
  mayRequeue: boolean,
): string | undefined {
  const name = nameOf(index);
  if (!now) return old && `${name} is forgotten.`;
  if (now.places > 1) return `${name} is stored twice.`;
  if (!old) return undefined;
  const isRequeued = mayRequeue && now.generation === old.generation + 1 && now.state === "waiting";
  if (hasEnded(old) && !isRequeued && (now.state !== old.state || now.generation !== old.generation))
    return `${name} had ended as ${old.state}, and is ${now.state} now.`;
  if (now.generation < old.generation) return `${name} is of a former generation again.`;
  if (now.generation === old.generation && now.attempts < old.attempts)
    return `An attempt of ${name} is forgotten.`;
  return undefined;
}

function packFault(db: Sqlite, content: Content): string | undefined {
  const packs = db.query<PackLine>(
    content,
    "SELECT in_flight0 | in_flight1 AS in_flight, recover_at FROM packs",
  );
  const isWithout = packs.some(({ in_flight, recover_at }) => (in_flight !== 0) !== (recover_at !== null));
  return isWithout ? "What is in flight has no time at which it is recovered." : undefined;
}

/** A write about a former generation changes nothing of what has begun since. */
function outOfTime(
  db: Sqlite,
  before: Content,
  after: Content,
  rows: readonly DeliveryRow[],
): string | undefined {
  const changed = rows.find(({ eventId, generation }) => {
    const old = knownIn(db, before).get(indexOf(eventId));
    const now = knownIn(db, after).get(indexOf(eventId));
    return old && old.generation > generation && now?.state !== old.state;
  });
  return (
    changed && `${nameOf(indexOf(changed.eventId))} was requeued, and a write from before has changed it.`
  );
}

/** An end that its writer considers recorded: it is, or a later one is. */
function lostEnd(db: Sqlite, content: Content, rows: readonly DeliveryRow[]): string | undefined {
  const now = knownIn(db, content);
  const lost = rows.find(({ eventId, endedAt, attempts, generation }) => {
    const stored = now.get(indexOf(eventId));
    if (endedAt === null) return stored === undefined;
    return !stored || !(hasEnded(stored) || stored.attempts > attempts || stored.generation > generation);
  });
  return lost && `${nameOf(indexOf(lost.eventId))} has been recorded as ${lost.state}, and it is not stored.`;
}

/** The sweep and a drain, as often as needed. */
async function calmStep(
  db: Sqlite,
  scenario: RecordScenario,
  world: World,
): Promise<Step<World> | undefined> {
  const states = knownIn(db, world.content);
  if (scenario.indexes.every((index) => states.get(index) && hasEnded(states.get(index) as Known)))
    return undefined;
  const isWaiting = [...states.values()].some(({ state }) => state === "waiting");
  const isRetrying = [...states.values()].some(({ state }) => state === "retrying");
  const [says, program] = isWaiting
    ? (["A drain delivers what waits.", drainAll] as const)
    : isRetrying
      ? ([
          "The sweep recovers what is overdue.",
          { name: "overdue", run: (d1: D1Database) => recoverOverdue(d1, END_OF_TIME, NOW, 100) },
        ] as const)
      : (["The sweep finds what is lost.", { name: "lost", run: sweepLost }] as const);
  const answers: Answer[] = [];
  let { content } = world;
  for (;;) {
    const standing = await standingOf<unknown>(program, answers);
    if (standing.kind !== "calls") break;
    const executed = db.execute(content, standing.statements);
    content = executed.content;
    answers.push(executed.answer);
  }
  return { says, to: withJudgement(db, world.content, { ...world, content }, false) };
}

const drainAll: Program<unknown> = {
  name: "drain all",
  run: async (db) => {
    const rows = (await rowsIn(db, [PAIR])).filter(({ state }) => state === "waiting");
    const due = rows.map(({ eventId }) => indexOf(eventId));
    const run = { due, read: rows } as unknown as Run;
    await recordOutcomes({ db }, rowsAfter(run, "delivered"), [], NOW);
  },
};

// ── In words ──

function outcomeText({ name }: Actor, { due, phase }: Run, outcome: Outcome): string {
  const which = due.join(" and ");
  const texts = {
    delivered: `has delivered ${which}`,
    failed: `has failed to deliver ${which}`,
    refused: `must let ${which} wait`,
    late: `has sent ${which}, and gets no answer yet`,
  };
  return `${name} ${phase === "late" ? "gets the answer at last: it " : ""}${texts[outcome]}.`;
}

function callText({ name, kind }: Actor, { phase, answers }: Run): string {
  if (phase === "writing")
    return `${name} records it${answers.length > 0 ? `, call ${answers.length + 1}` : ""}`;
  if (kind === "consumer" || kind === "drain") return `${name} reads D1`;
  const texts = {
    "sweep for lost": "looks for what is lost, and lets it wait",
    "sweep for overdue": "lets wait what is overdue",
    requeue: "requeues what has ended",
    cancel: "cancels what waits",
  };
  return `${name} ${texts[kind]}${answers.length > 0 ? `, call ${answers.length + 1}` : ""}`;
}

function endText({ name, kind }: Actor, { phase }: Run): string {
  if (phase === "writing") return `${name} has recorded it.`;
  return kind === "consumer" || kind === "drain" ? `${name} has read what is due.` : `${name} is done.`;
}
