/**
 * A model of deliveries with which the stored rows are compared: the possible outcomes of each delivery in a random
 * history. After each step the model reads the requests that were made since, and the rows must agree. If a crash or
 * the age limit leaves the outcome open, a delivery has several possible outcomes, and its row decides.
 */

import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { type DeliveryRow, loadedRow } from "../../src/store/delivery.ts";
import { planned } from "./platform.ts";
import { keyOf, type RequestLog, type Sent } from "./request-log.ts";
import { storedRows } from "./world.ts";

const MINUTE = 60_000;
export const GIVE_UP_MS = 120 * MINUTE;
export const retry = {
  schedule: [30, 60],
  max_attempts: 3,
  give_up_after: GIVE_UP_MS / 1000,
  expire_unattempted_after: GIVE_UP_MS / 1000,
};
/** The longest wait of the schedule, and how much a hold may add to it. */
const LONGEST_WAIT_MS = 5 * MINUTE;

/** The outcome of a delivery since it was planned, replayed or retried by hand. */
type Outcome = Readonly<{ attempts: number; end?: "delivered" | "dead" | "cancelled" }>;

const NOT_ATTEMPTED: Outcome = { attempts: 0 };

/** Statuses that are not retried. */
const FINAL: readonly unknown[] = [400, 410];

type Possible = Readonly<{
  outcomes: readonly Outcome[];
  giveUpAt: number;
  /** The row when it was last read. */
  row?: DeliveryRow;
}>;

export type Replay = Readonly<{
  id: string;
  destination: string;
  include: "dead" | "delivered";
  state: string;
  createdAt: number;
  total: number;
  requeued: number;
  delivered: number;
  failed: number;
}>;

/** The deliveries that a replay covers and has not restarted yet, how many it covered, and how many it has requeued. */
type Covered = { readonly left: Set<string>; readonly total: number; requeued: number };

export type Model = {
  readonly deliveries: Map<string, Possible>;
  readonly replays: Map<string, Covered>;
  /** Deliveries retried by hand in this step, successfully or not. */
  readonly retried: Set<string>;
  readonly paused: Set<string>;
  readonly deleted: Set<string>;
  /** The number of requests that the model has read. */
  seen: number;
};

export function newModel(): Model {
  return {
    deliveries: new Map(),
    replays: new Map(),
    retried: new Set(),
    paused: new Set(),
    deleted: new Set(),
    seen: 0,
  };
}

/** @param died a crash may have left the last attempts unrecorded */
export async function compare(
  model: Model,
  { sent, afterEnd, early }: RequestLog,
  now: number,
  died: boolean,
) {
  expect(afterEnd, "sent after it had ended").toEqual([]);
  expect(early, "sent earlier than asked").toEqual([]);
  const rows = new Map((await storedRows()).map((row) => [keyOf(row), loadedRow(row)]));
  for (const message of await planned()) {
    const giveUpAt = message.acceptedAt + GIVE_UP_MS;
    if (!model.deliveries.has(keyOf(message)))
      model.deliveries.set(keyOf(message), { outcomes: [NOT_ATTEMPTED], giveUpAt });
  }
  const replays = await storedReplays();
  for (const replay of replays) addReplay(replay, model);
  for (const [key, row] of rows) startAgain(model, key, row, replays);
  for (const one of sent.slice(model.seen)) takeRequest(model, one, now, died);
  model.seen = sent.length;
  for (const [key, possible] of model.deliveries)
    model.deliveries.set(key, confirmed(model, key, possible, rows.get(key), now));
  model.retried.clear();
}

async function storedReplays(): Promise<Replay[]> {
  const { results } = await env.DB.prepare(
    `SELECT id, destination_id AS destination, include, state, created_at AS createdAt, total, requeued, delivered,
       failed FROM replays`,
  ).all<Replay>();
  return results;
}

/** A new replay covers what had ended before the step in which it began. */
function addReplay(replay: Replay, { replays, deliveries }: Model): void {
  if (replays.has(replay.id)) return;
  const covered = [...deliveries].filter(([, { row }]) => row && isCovered(replay, row));
  replays.set(replay.id, { left: new Set(covered.map(([key]) => key)), total: covered.length, requeued: 0 });
}

function isCovered({ destination, include, createdAt }: Replay, row: DeliveryRow): boolean {
  const isOver = row.endedAt !== null && row.endedAt <= createdAt;
  return row.destinationId === destination && row.state === include && isOver;
}

/** A higher generation was started, by a replay or by hand. */
function startAgain(model: Model, key: string, row: DeliveryRow, replays: readonly Replay[]): void {
  const before = model.deliveries.get(key);
  if (!before || row.generation <= (before.row?.generation ?? 0)) return;
  const replay = replays.find(({ id }) => id === row.replay);
  const asked = replay ? before.row && isCovered(replay, before.row) : model.retried.has(key);
  expect(asked, `${key} was started again, and nothing asked for it`).toBe(true);
  const covered = replay && model.replays.get(replay.id);
  if (covered) covered.requeued += 1;
  for (const { left } of model.replays.values()) left.delete(key);
  model.deliveries.set(key, { outcomes: [NOT_ATTEMPTED], giveUpAt: row.giveUpAt });
}

function takeRequest({ deliveries, paused }: Model, sent: Sent, now: number, died: boolean): void {
  const [, destination = ""] = sent.key.split(" ");
  expect(paused, `${sent.key} was sent while paused`).not.toContain(destination);
  const possible = deliveries.get(sent.key) ?? { outcomes: [], giveUpAt: 0 };
  const late = now + LONGEST_WAIT_MS >= possible.giveUpAt ? [true, false] : [false];
  const next = late.flatMap((isLate) => possible.outcomes.map((one) => attempted(one, sent, isLate)));
  deliveries.set(sent.key, { ...possible, outcomes: died ? [...next, ...possible.outcomes] : next });
}

/** The outcome that the row shows; throws when it is not a possible one. */
function confirmed(
  { deleted }: Model,
  key: string,
  possible: Possible,
  row: DeliveryRow | undefined,
  now: number,
): Possible {
  const { outcomes, giveUpAt } = possible;
  const old = now >= giveUpAt ? outcomes.map((outcome) => ended(outcome, "dead")) : [];
  const isDeleted = deleted.has(key.split(" ")[1] ?? "");
  const cancelled = isDeleted ? outcomes.map((outcome) => ended(outcome, "cancelled")) : [];
  const all = [...outcomes, ...old, ...cancelled];
  const shown = all.find((outcome) => isShownBy(outcome, row));
  if (!shown) throw new Error(`${key} is ${textOf(row)}, and not ${JSON.stringify(all)}`);
  return { outcomes: [shown], giveUpAt: row?.giveUpAt ?? giveUpAt, ...(row && { row }) };
}

function textOf(row: DeliveryRow | undefined): string {
  return row ? `${row.state} (${row.reason}) after ${row.attempts} attempts` : "without a row";
}

/** The faults when everything should have ended, in sentences. */
export async function faultsAtEnd({ deliveries, replays }: Model): Promise<string[]> {
  const open = [...deliveries].filter(([, { outcomes }]) => outcomes[0]?.end === undefined);
  const stored = await storedReplays();
  return [
    ...open.map(([key]) => `${key} has not ended`),
    ...stored.flatMap((replay) => faultsOf(replay, replays.get(replay.id))),
  ];
}

function faultsOf({ id, state, total, requeued, delivered, failed }: Replay, covered?: Covered): string[] {
  return [
    !["completed", "cancelled"].includes(state) && `${id} is ${state}`,
    total !== covered?.total && `${id} has a total of ${total}, not ${covered?.total}`,
    requeued !== covered?.requeued && `${id} counts ${requeued} of ${covered?.requeued}`,
    state === "completed" && covered?.left.size !== 0 && `${id} has left out ${[...(covered?.left ?? [])]}`,
    delivered + failed !== requeued && `${id} counts ${delivered} and ${failed} ends of ${requeued}`,
  ].filter((line) => line !== false);
}

/** @param late whether the next attempt would come after its age limit */
function attempted(outcome: Outcome, { status }: Sent, late: boolean): Outcome {
  if (outcome.end) throw new Error("A delivery that has ended is not attempted");
  const attempts = outcome.attempts + 1;
  if (status === 204) return { attempts, end: "delivered" };
  return FINAL.includes(status) || attempts === retry.max_attempts || late
    ? { attempts, end: "dead" }
    : { attempts };
}

function ended(outcome: Outcome, end: "dead" | "cancelled"): Outcome {
  return outcome.end ? outcome : { ...outcome, end };
}

function isShownBy({ attempts, end }: Outcome, row: DeliveryRow | undefined): boolean {
  const shownEnd = row?.endedAt == null ? undefined : row.state;
  return attempts === (row?.attempts ?? 0) && end === shownEnd;
}
