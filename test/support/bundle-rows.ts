/**
 * Writes bundles straight into a database, as intake would have committed them: a few with given events, or very many
 * by one statement that repeats a bundle. For tests whose history would take too long to post.
 */
import {
  deliveriesOf,
  eventAt,
  headersText,
  joined,
  MAX_EVENTS,
  type Plan,
  planOf,
  type RequestHeaders,
  storedHeader,
} from "../../src/core/bundle.ts";
import { checksumOf } from "../../src/core/crc32.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";

/** By default an event is of `acme`, of type `a`, without data and without destinations. */
export type EventRow = Readonly<{
  tenant?: string;
  type?: string;
  data?: unknown;
  destinations?: readonly string[];
  tags?: readonly string[];
  channels?: readonly string[];
  ttlSeconds?: number;
  /** The posted body, instead of an envelope of `data`, and its type. */
  content?: Readonly<{ text: string; type: string }>;
  /** The event's own request headers. */
  headers?: RequestHeaders;
}>;

export type BundleRow = Readonly<{
  events: readonly EventRow[];
  /** Default: the next id of the database. */
  id?: number;
  /** Epoch ms. */
  acceptedAt?: number;
  /** Epoch ms; absent: delivered at once. */
  deliverAt?: number | undefined;
  /** Idempotency keys in the header. Their own rows are not written. */
  keys?: readonly (readonly [tenant: string, key: string])[];
}>;

/** The columns of a bundle without its id and times. */
export type BundleColumns = Readonly<{
  count: number;
  planned: number;
  plan: Plan;
  header: string;
  /** The bodies as hexadecimal. */
  hex: string;
}>;

const encoder = new TextEncoder();

/** The columns of a bundle of these events. */
function columnsOf({ events, keys }: Pick<BundleRow, "events" | "keys">): BundleColumns {
  const bodies = events.map(({ type = "a", data = {}, content }) =>
    encoder.encode(content?.text ?? JSON.stringify({ type, timestamp: "2026-11-21T09:00:00.000Z", data })),
  );
  const ownHeaders = headersText(events.map(({ headers }) => headers));
  const part = ownHeaders === undefined ? [] : [encoder.encode(ownHeaders)];
  const whole = joined([...bodies, ...part]);
  const plan = planOf(events.map(({ destinations = [] }) => destinations));
  const headers = events.map(({ tenant = "acme", type = "a", tags, channels, ttlSeconds, content }, i) => ({
    ...{ tenant, type, tags, channels, ttlSeconds, contentType: content?.type },
    bytes: bodies[i]?.byteLength ?? 0,
  }));
  const stored = {
    encoding: "plain",
    checksum: checksumOf(whole),
    ...(keys && { keys }),
    ...(part[0] && { headerBytes: part[0].byteLength }),
  } as const;
  return {
    count: events.length,
    planned: deliveriesOf(plan),
    plan,
    header: JSON.stringify(storedHeader(headers, stored)),
    hex: hexOf(whole),
  };
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

function hexOf(bytes: Uint8Array): string {
  let hex = "";
  for (const byte of bytes) hex += HEX[byte];
  return hex;
}

/** Groups events into full bundles, or into bundles of `size` each. */
export function bundlesOf(
  events: readonly EventRow[],
  times: Omit<BundleRow, "events" | "id"> = {},
  size = MAX_EVENTS,
): BundleRow[] {
  const count = Math.ceil(events.length / size);
  return Array.from({ length: count }, (_, i) => ({
    ...times,
    events: events.slice(i * size, (i + 1) * size),
  }));
}

/** The part of D1 that is needed here. Benches in Node have no more. */
type Database = Readonly<{
  prepare: (sql: string) => Readonly<{
    bind: (...values: unknown[]) => Readonly<{ run: () => Promise<unknown> }>;
    first: <T>(column: string) => Promise<T | null>;
  }>;
}>;

const COLUMNS = "id, tokens, accepted_at, deliver_at, count, planned, plan, header, body";

const INSERT = `
  INSERT INTO bundles (${COLUMNS})
  SELECT value ->> 'id', '["row' || (value ->> 'id') || '"]', value ->> 'acceptedAt', value ->> 'deliverAt',
    value ->> 'count', value ->> 'planned', value ->> 'plan', value ->> 'header', unhex(value ->> 'hex')
  FROM json_each(?1)`;

/** The most characters of one parameter, which may have 2 MB. */
const CHARACTERS = 1_000_000;

/** Writes the bundles; returns the ids of their events, in order. */
export async function insertBundles(
  db: Database,
  rows: readonly BundleRow[],
  database = 0,
): Promise<number[]> {
  const newest = await db.prepare("SELECT max(id) AS id FROM bundles").first<number>("id");
  const before = newest ?? beforeFirstBundleOf(database);
  let list: string[] = [];
  let characters = 0;
  const write = async () => {
    await db.prepare(INSERT).bind(`[${list.join()}]`).run();
    list = [];
    characters = 0;
  };
  const events: number[] = [];
  for (const [i, row] of rows.entries()) {
    const { id = before + i + 1, acceptedAt = 0, deliverAt = null } = row;
    const { plan, ...columns } = columnsOf(row);
    const value = JSON.stringify({ id, acceptedAt, deliverAt, ...columns, plan: JSON.stringify(plan) });
    if (characters + value.length > CHARACTERS && list.length > 0) await write();
    list.push(value);
    characters += value.length;
    events.push(...row.events.map((_, index) => eventAt(id, index)));
  }
  if (list.length > 0) await write();
  return events;
}

/**
 * A statement with its parameters that writes `count` bundles, which differ only in their ids, from `first` on, and in
 * their times.
 * @param acceptedAt SQL of epoch ms, where `i` counts the bundles from 0
 */
export function repeatedBundle(
  events: readonly EventRow[],
  { first, count, acceptedAt }: Readonly<{ first: number; count: number; acceptedAt: string | number }>,
): Readonly<{ sql: string; values: readonly (string | number)[] }> {
  const { plan, hex, header, ...columns } = columnsOf({ events });
  return {
    sql: `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?2 - 1)
      INSERT INTO bundles (${COLUMNS})
      SELECT ?1 + i, '["row' || (?1 + i) || '"]', ${acceptedAt}, NULL, ?3, ?4, ?5, ?6, unhex(?7) FROM n`,
    values: [first, count, columns.count, columns.planned, JSON.stringify(plan), header, hex],
  };
}
