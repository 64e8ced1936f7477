/** Bundles: which database one lives in (its number says it, see core/placement.ts), and reading its bodies. */
import {
  bundleOf,
  type DeliveryKey,
  headersOf,
  type RequestHeaders,
  type StoredHeader,
} from "../core/bundle.ts";
import { checksumOf } from "../core/crc32.ts";
import { databaseNumberOf, databaseNumberOfBundle } from "../core/placement.ts";
import { allOf, type Databases } from "./databases.ts";

/** The database that the event lives in; undefined when it is not bound. */
export function homeOf(databases: Databases, event: number): D1Database | undefined {
  return allOf(databases)[databaseNumberOf(event)];
}

export function homeOfBundle(databases: Databases, bundle: number): D1Database | undefined {
  return allOf(databases)[databaseNumberOfBundle(bundle)];
}

/** The items grouped by the databases that their events live in, without those whose database is not bound. */
export function sharesOf<T>(
  databases: Databases,
  items: readonly T[],
  eventOf: (item: T) => number,
): ReadonlyMap<D1Database, readonly T[]> {
  const shares = Map.groupBy(items, (item) => homeOf(databases, eventOf(item)));
  return new Map([...shares].flatMap(([db, share]) => (db ? [[db, share]] : [])));
}

/** Works in all databases at once that the events or deliveries live in, each with its share of them. */
export async function inShares<T extends number | Pick<DeliveryKey, "eventId">, R>(
  databases: Databases,
  items: readonly T[],
  work: (db: D1Database, share: readonly T[]) => Promise<readonly R[]>,
): Promise<R[]> {
  const shares = sharesOf(databases, items, (item) => (typeof item === "number" ? item : item.eventId));
  return (await Promise.all([...shares].map(([db, share]) => work(db, share)))).flat();
}

export function bundlesOf(events: readonly number[]): number[] {
  return [...new Set(events.map(bundleOf))];
}

/** The bundles of a JSON list of ids in `?1`, to be put behind FROM. */
export const LISTED_BUNDLES = "bundles WHERE id IN (SELECT value FROM json_each(?1))";

/** The stored parts of an event's content: its body, and the request headers that it was posted with. */
export type StoredContent = Readonly<{
  body: Uint8Array<ArrayBuffer>;
  headers?: RequestHeaders | undefined;
}>;

/** The content of each event in order; undefined when the stored bytes are damaged. */
export async function readContents(
  hex: string,
  header: StoredHeader,
): Promise<readonly StoredContent[] | undefined> {
  const plain = await plainOf(hex, header);
  const sizes = headersOf(header).map(({ bytes }) => bytes);
  const { headerBytes = 0 } = header;
  if (!plain || plain.byteLength !== sizes.reduce((sum, size) => sum + size, headerBytes)) return undefined;
  const own = ownHeaders(plain.subarray(plain.byteLength - headerBytes));
  let at = 0;
  return sizes.map((size, index) => {
    at += size;
    return { body: plain.subarray(at - size, at), headers: own[index] };
  });
}

function ownHeaders(bytes: Uint8Array): Readonly<Record<number, RequestHeaders>> {
  return bytes.byteLength === 0 ? {} : JSON.parse(new TextDecoder().decode(bytes));
}

async function plainOf(hex: string, { encoding, checksum }: StoredHeader) {
  try {
    const stored = Uint8Array.fromHex(hex);
    if (encoding === "gzip") return await through(stored, new DecompressionStream("gzip"));
    return checksumOf(stored) === checksum ? stored : undefined;
  } catch {
    return undefined;
  }
}

export async function through(
  bytes: Uint8Array,
  stream: ReadableWritablePair,
): Promise<Uint8Array<ArrayBuffer>> {
  const writer = stream.writable.getWriter();
  const written = writer.write(bytes).then(() => writer.close());
  const [whole] = await Promise.all([new Response(stream.readable).bytes(), written]);
  return whole as Uint8Array<ArrayBuffer>;
}
