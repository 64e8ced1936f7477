/**
 * What may have become of every delivery of a random history, and whether D1 says so. After each step the
 * requests that were made since are lived on by the model, and the rows must agree.
 */
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { DeliveryRow } from "../../src/db/schema.ts";
import { attempted, ended, isLived, type Life, unborn } from "./napkin.ts";
import { planned } from "./platform.ts";
import { keyOf, keyOfRow, type Sent, type Witness } from "./witness.ts";
import { storedRows } from "./world.ts";

const MINUTE = 60_000;
export const GIVE_UP_MS = 120 * MINUTE;
export const retry = {
  schedule: [30, 60],
  max_attempts: 3,
  give_up_after: GIVE_UP_MS / 1000,
  expire_unattempted_after: GIVE_UP_MS / 1000,
};
/** The longest wait of the schedule, and what a hold may add to it. */
const LONGEST_WAIT_MS = 5 * MINUTE;

type Told = Readonly<{
  may: readonly Life[];
  giveUpAt: number;
  /** As D1 said when it was last looked at. */
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

/** What had ended as a replay means it when it began, and has not begun again since; and how many it has requeued. */
type Meant = { readonly left: Set<string>; readonly total: number; requeued: number };

export type Model = {
  readonly lives: Map<string, Told>;
  readonly replays: Map<string, Meant>;
  /** Retried by hand in this step, whether it has worked or not. */
  readonly retried: Set<string>;
  readonly paused: Set<string>;
  readonly deleted: Set<string>;
  /** Requests that have been looked at. */
  seen: number;
};

export function newModel(): Model {
  return {
    lives: new Map(),
    replays: new Map(),
    retried: new Set(),
    paused: new Set(),
    deleted: new Set(),
    seen: 0,
  };
}

/** @param died a crash may have left the last attempts unknown */
export async function compare(model: Model, { sent, afterEnd, early }: Witness, now: number, died: boolean) {
  expect(afterEnd, "sent after it had ended").toEqual([]);
  expect(early, "sent earlier than asked").toEqual([]);
  const rows = new Map((await storedRows()).map((row) => [keyOfRow(row), row]));
  for (const message of await planned()) {
    const giveUpAt = message.acceptedAt + GIVE_UP_MS;
    if (!model.lives.has(keyOf(message))) model.lives.set(keyOf(message), { may: [unborn], giveUpAt });
  }
  const replays = await storedReplays();
  for (const replay of replays) learnOf(replay, model);
  for (const [key, row] of rows) beginAgain(model, key, row, replays);
  for (const one of sent.slice(model.seen)) liveOn(model, one, now, died);
  model.seen = sent.length;
  for (const [key, told] of model.lives) model.lives.set(key, agreed(model, key, told, rows.get(key), now));
  model.retried.clear();
}

async function storedReplays(): Promise<Replay[]> {
  const { results } = await env.DB.prepare(
    `SELECT id, destination_id AS destination, include, state, created_at AS createdAt, total, requeued, delivered,
       failed FROM replays`,
  ).all<Replay>();
  return results;
}

/** What a new one means had ended before the step in which it began. */
function learnOf(replay: Replay, { replays, lives }: Model): void {
  if (replays.has(replay.id)) return;
  const meant = [...lives].filter(([, { row }]) => row && isMeant(replay, row));
  replays.set(replay.id, { left: new Set(meant.map(([key]) => key)), total: meant.length, requeued: 0 });
}

function isMeant({ destination, include, createdAt }: Replay, row: DeliveryRow): boolean {
  const isOver = row.endedAt !== null && row.endedAt <= createdAt;
  return row.destinationId === destination && row.state === include && isOver;
}

/** A higher number is another life: somebody must have asked for it. */
function beginAgain(model: Model, key: string, row: DeliveryRow, replays: readonly Replay[]): void {
  const before = model.lives.get(key);
  if (!before || row.generation <= (before.row?.generation ?? 0)) return;
  const replay = replays.find(({ id }) => id === row.replay);
  const asked = replay ? before.row && isMeant(replay, before.row) : model.retried.has(key);
  expect(asked, `${key} has begun again, and nobody asked for it`).toBe(true);
  const meant = replay && model.replays.get(replay.id);
  if (meant) meant.requeued += 1;
  for (const { left } of model.replays.values()) left.delete(key);
  model.lives.set(key, { may: [unborn], giveUpAt: row.giveUpAt });
}

function liveOn({ lives, paused }: Model, sent: Sent, now: number, died: boolean): void {
  const [, destination = ""] = sent.key.split(" ");
  expect(paused, `${sent.key} was sent while paused`).not.toContain(destination);
  const told = lives.get(sent.key) ?? { may: [], giveUpAt: 0 };
  const late = now + LONGEST_WAIT_MS >= told.giveUpAt ? [true, false] : [false];
  const next = late.flatMap((isLate) => told.may.map((one) => attempted(one, sent, isLate)));
  lives.set(sent.key, { ...told, may: died ? [...next, ...told.may] : next });
}

/** The life that D1 tells of; throws when it is none that may be. */
function agreed(
  { deleted }: Model,
  key: string,
  told: Told,
  row: DeliveryRow | undefined,
  now: number,
): Told {
  const { may, giveUpAt } = told;
  const old = now >= giveUpAt ? may.map((life) => ended(life, "dead")) : [];
  const gone = deleted.has(key.split(" ")[1] ?? "") ? may.map((life) => ended(life, "cancelled")) : [];
  const all = [...may, ...old, ...gone];
  const lived = all.find((life) => isLived(life, row));
  if (!lived) throw new Error(`${key} is ${alertState(row)}, and not ${JSON.stringify(all)}`);
  return { may: [lived], giveUpAt: row?.giveUpAt ?? giveUpAt, ...(row && { row }) };
}

function alertState(row: DeliveryRow | undefined): string {
  return row ? `${row.state} (${row.reason}) after ${row.attempts} attempts` : "without a row";
}

/** When all has ended: what is wrong, in sentences. */
export async function leftOpen({ lives, replays }: Model): Promise<string[]> {
  const open = [...lives].filter(([, { may }]) => may[0]?.end === undefined);
  const stored = await storedReplays();
  return [
    ...open.map(([key]) => `${key} has not ended`),
    ...stored.flatMap((replay) => wrongOf(replay, replays.get(replay.id))),
  ];
}

function wrongOf({ id, state, total, requeued, delivered, failed }: Replay, meant?: Meant): string[] {
  return [
    !["completed", "cancelled"].includes(state) && `${id} is ${state}`,
    total !== meant?.total && `${id} says that it means ${total}, not ${meant?.total}`,
    requeued !== meant?.requeued && `${id} counts ${requeued} of ${meant?.requeued}`,
    state === "completed" && meant?.left.size !== 0 && `${id} has left out ${[...(meant?.left ?? [])]}`,
    delivered + failed !== requeued && `${id} counts ${delivered} and ${failed} ends of ${requeued}`,
  ].filter((line) => line !== false);
}
