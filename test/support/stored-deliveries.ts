/**
 * Writes destinations, replays and deliveries straight into a database, by one statement for each table, and reads them
 * back in short form: for tests of queries that must distinguish many of them.
 */

import { maskOf } from "../../src/core/pack.ts";
import type { StoredState } from "../../src/store/delivery.ts";

/** An age limit that no test reaches, epoch ms. */
export const NEVER = 8_640_000_000_000_000;

type Row = Readonly<Record<string, unknown>>;

/** Writes rows that all have the same columns; lists and objects as JSON. */
export async function insertRows(db: D1Database, table: string, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  const columns = Object.keys(rows[0] ?? {});
  const values = columns.map((column) => `value ->> '${column}'`);
  await db
    .prepare(`INSERT INTO ${table} (${columns}) SELECT ${values} FROM json_each(?1)`)
    .bind(JSON.stringify(rows))
    .run();
}

type DestinationRow = Readonly<{ id: string; tenant?: string; status?: string; deletedAt?: number | null }>;

export async function insertDestinations(db: D1Database, rows: readonly DestinationRow[]): Promise<void> {
  const others = { url: "https://a.example/", secret: "", created_at: 0, updated_at: 0 };
  const columns = ({ id, tenant = "acme", status = "active", deletedAt = null }: DestinationRow) => ({
    ...{ id, tenant, status },
    deleted_at: deletedAt,
    ...others,
  });
  await insertRows(db, "destinations", rows.map(columns));
}

type ReplayRow = Readonly<{
  id: string;
  destination: string;
  tenant?: string;
  include?: string;
  state?: string;
  since?: number;
  until?: number;
}>;

/** Writes replays, by default of the dead deliveries of `acme`, and running. */
export async function insertReplays(db: D1Database, rows: readonly ReplayRow[]): Promise<void> {
  const columns = ({ id, destination, tenant = "acme", include = "dead", ...row }: ReplayRow) => ({
    ...{ id, tenant, destination_id: destination, include, state: row.state ?? "running" },
    ...{ since: row.since ?? 0, until: row.until ?? 1, rate_per_minute: 1, pace: 1 },
    ...{ next_step_at: 0, created_at: 0, updated_at: 0 },
  });
  await insertRows(db, "replays", rows.map(columns));
}

type DeliveryColumns = Readonly<{
  destination: string;
  event: number;
  state: StoredState;
  reason?: string | null;
  attempts?: number;
  nextAttemptAt?: number | null;
  firstAttemptAt?: number | null;
  giveUpAt?: number;
  endedAt?: number | null;
  replay?: string | null;
}>;

/** Writes deliveries as rows. */
export async function insertDeliveries(db: D1Database, rows: readonly DeliveryColumns[]): Promise<void> {
  const columns = ({ destination, event, state, reason = null, attempts = 0, ...row }: DeliveryColumns) => ({
    destination_id: destination,
    event_id: event,
    ...{ state, reason, attempts },
    next_attempt_at: row.nextAttemptAt ?? null,
    first_attempt_at: row.firstAttemptAt ?? null,
    give_up_at: row.giveUpAt ?? NEVER,
    ended_at: row.endedAt ?? null,
    replay: row.replay ?? null,
  });
  await insertRows(db, "deliveries", rows.map(columns));
}

type PackColumns = Readonly<{
  destination: string;
  bundle: number;
  /** The indexes of the deliveries in each state. */
  waiting?: readonly number[];
  inFlight?: readonly number[];
  delivered?: readonly number[];
  cancelled?: readonly number[];
  reason?: string | null;
  nextAttemptAt?: number | null;
  recoverAt?: number | null;
  giveUpAt?: number | null;
  endedAt?: number | null;
  /** In the format of `endsText`. */
  ends?: string;
}>;

/** Writes packs. */
export async function insertPacks(db: D1Database, packs: readonly PackColumns[]): Promise<void> {
  const columns = (pack: PackColumns) => {
    const [waiting0, waiting1] = maskOf(pack.waiting ?? []);
    const [in_flight0, in_flight1] = maskOf(pack.inFlight ?? []);
    const [delivered0, delivered1] = maskOf(pack.delivered ?? []);
    const [cancelled0, cancelled1] = maskOf(pack.cancelled ?? []);
    return {
      destination_id: pack.destination,
      bundle_id: pack.bundle,
      ...{ waiting0, waiting1, in_flight0, in_flight1, delivered0, delivered1, cancelled0, cancelled1 },
      reason: pack.reason ?? null,
      next_attempt_at: pack.nextAttemptAt ?? null,
      recover_at: pack.recoverAt ?? null,
      give_up_at: pack.giveUpAt === undefined ? NEVER : pack.giveUpAt,
      ended_at: pack.endedAt ?? null,
      ends: pack.ends ?? "",
    };
  };
  await insertRows(db, "packs", packs.map(columns));
}

/** Each stored delivery as `destination event state`, with `/reason` if it has one, in order. */
export async function deliveryStates(db: D1Database): Promise<string[]> {
  type State = { destination: string; event: number; state: string; reason: string | null };
  const { results } = await db
    .prepare(
      `SELECT destination_id AS destination, event_id AS event, state, reason FROM delivery_states
       ORDER BY destination_id, event_id`,
    )
    .all<State>();
  return results.map(
    ({ destination, event, state, reason }) =>
      `${destination} ${event} ${reason === null ? state : `${state}/${reason}`}`,
  );
}
