/**
 * Erased events, in the header of their bundle. An event's place, tenant and type stay, so that it is still listed; its
 * bytes, and with them its request headers, are gone.
 */
import { HEADER_FIELDS, indexesOf, type Runs, runsOf, type StoredHeader } from "./bundle.ts";

/** Other parts of the header that an erasure removes. */
type AlsoErased = Readonly<{
  /** Tags and channels may name people: the events lose them. */
  tags: boolean;
  /** The idempotency keys, as the header names them, that are no longer stored. */
  keys: readonly (readonly [tenant: string, key: string])[];
}>;

/**
 * The header of a bundle of which the events at these indexes have been erased.
 * @param stored how the remaining bodies are stored
 */
export function headerWithout(
  header: StoredHeader,
  indexes: readonly number[],
  stored: Pick<StoredHeader, "encoding" | "checksum" | "headerBytes">,
  also: AlsoErased,
): StoredHeader {
  const { checksum: _checksum, headerBytes: _bytes, keys = [], tags = [], channels = [], ...rest } = header;
  const gone = new Set(indexes);
  const removed = new Set(also.keys.map((key) => JSON.stringify(key)));
  const keptKeys = keys.filter((key) => !removed.has(JSON.stringify(key)));
  const labels = also.tags ? gone : new Set<number>();
  const keptTags = tags.flatMap(([place, tag, runs]) =>
    leftOf(runs, labels).map((left): Tag => [place, tag, left]),
  );
  const keptChannels = channels.flatMap(([channel, runs]) =>
    leftOf(runs, labels).map((left): Channel => [channel, left]),
  );
  const isBytes = (at: number) => at % HEADER_FIELDS === HEADER_FIELDS - 1;
  return {
    ...rest,
    ...stored,
    version: header.version > 2 ? header.version : 2,
    events: header.events.map((value, at) =>
      isBytes(at) && gone.has(Math.floor(at / HEADER_FIELDS)) ? 0 : value,
    ),
    erased: runsOf([...new Set([...indexesOf(header.erased ?? []), ...gone])].sort((a, b) => a - b)),
    ...(keptKeys.length > 0 && { keys: keptKeys }),
    ...(keptTags.length > 0 && { tags: keptTags }),
    ...(keptChannels.length > 0 && { channels: keptChannels }),
  };
}

type Tag = NonNullable<StoredHeader["tags"]>[number];

type Channel = NonNullable<StoredHeader["channels"]>[number];

/** The runs without those indexes; empty if none is left. */
function leftOf(runs: Runs, gone: ReadonlySet<number>): Runs[] {
  const left = runsOf(indexesOf(runs).filter((index) => !gone.has(index)));
  return left.length === 0 ? [] : [left];
}

/** The tags that a bundle no longer has, each with its tenant: one of them may have lost its last event. */
export function tagsLost(before: StoredHeader, after: StoredHeader): [tenant: string, tag: string][] {
  const nameOf = ([place, tag]: Tag) => JSON.stringify([before.tenants[place] ?? "", tag]);
  const left = new Set((after.tags ?? []).map(nameOf));
  return (before.tags ?? [])
    .map(nameOf)
    .filter((name) => !left.has(name))
    .map((name) => JSON.parse(name));
}
