/**
 * Bundles: the events that were committed together, of one tenant or of many, in one row: their bodies one after the
 * other, a header that describes each of them, and a plan of which destinations get which.
 *
 * An event's number is its bundle's number times 128 plus its index in it, so numbers are in the order of acceptance,
 * and a number alone leads to the row. Nothing that a user can see depends on which events share a bundle.
 */

/** Events of a bundle at most: a pack's masks have a hundred bits (see pack.ts). */
export const MAX_EVENTS = 100;

/**
 * Bytes of the bodies of a bundle, unless its only event has more. A row holds 2 MB, a bundle in memory twice its
 * size.
 */
export const MAX_BYTES = 512 * 1024;

/** The latest version of headers that this code knows. */
export const HEADER_VERSION = 4;

const INDEXES = 128;

export function eventAt(bundle: number, index: number): number {
  return bundle * INDEXES + index;
}

/** The largest number that an event of the bundle could have. None has it: a bundle has fewer events. */
export function lastEventOf(bundle: number): number {
  return eventAt(bundle, INDEXES - 1);
}

export function bundleOf(event: number): number {
  return Math.floor(event / INDEXES);
}

export function indexOf(event: number): number {
  return event % INDEXES;
}

/** Indexes in ascending order, as pairs of the first and the last of each run of neighbours. */
export type Runs = readonly number[];

/** Ascending numbers as runs; one that is given twice begins another. */
export function runsOf(indexes: readonly number[]): number[] {
  const runs: number[] = [];
  for (const index of indexes) {
    if (runs.at(-1) === index - 1) runs[runs.length - 1] = index;
    else runs.push(index, index);
  }
  return runs;
}

/** The indexes of runs, in ascending order; of a damaged list those that can be read. */
export function indexesOf(runs: Runs): number[] {
  const indexes: number[] = [];
  for (let i = 0; i + 1 < runs.length; i += 2) {
    for (let index = runs[i] ?? 0; index <= Math.min(runs[i + 1] ?? 0, INDEXES - 1); index++)
      indexes.push(index);
  }
  return indexes;
}

export function lengthOf(runs: Runs): number {
  let count = 0;
  for (let i = 0; i + 1 < runs.length; i += 2) count += (runs[i + 1] ?? 0) - (runs[i] ?? 0) + 1;
  return count;
}

/** Which events of a bundle each destination gets. */
export type Plan = Readonly<Record<string, Runs>>;

/** @param destinations of each event, in the order of the events */
export function planOf(destinations: readonly (readonly string[])[]): Plan {
  const indexes = new Map<string, number[]>();
  for (const [index, ids] of destinations.entries()) {
    for (const id of ids) {
      const list = indexes.get(id);
      if (list) list.push(index);
      else indexes.set(id, [index]);
    }
  }
  return Object.fromEntries([...indexes].map(([id, list]) => [id, runsOf(list)]));
}

/** The destinations of one event, in the order of the plan. */
export function destinationsOf(plan: Plan, index: number): string[] {
  return Object.keys(plan).filter((id) => runsInclude(plan[id] ?? [], index));
}

export function runsInclude(runs: Runs, index: number): boolean {
  for (let i = 0; i + 1 < runs.length; i += 2) {
    if (index >= (runs[i] ?? 0) && index <= (runs[i + 1] ?? 0)) return true;
  }
  return false;
}

/** Deliveries of one bundle: those that its plan has for each of these destinations. */
export type BundlePart = Readonly<{
  bundle: number;
  destinations: readonly string[];
  /** Only these indexes; absent: all planned ones. */
  indexes?: Runs | undefined;
}>;

/** Names a delivery: the event's number and the destination's id. */
export type DeliveryKey = Readonly<{ eventId: number; destinationId: string }>;

/** A delivery's name in maps and sets. */
export function deliveryName({ eventId, destinationId }: DeliveryKey): string {
  return `${eventId} ${destinationId}`;
}

/** Deliveries as parts, each of one bundle and destination. */
export function partsOf(deliveries: readonly DeliveryKey[]): BundlePart[] {
  const groups = Map.groupBy(
    deliveries,
    ({ eventId, destinationId }) => `${bundleOf(eventId)} ${destinationId}`,
  );
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (!first) return [];
    const indexes = [...new Set(group.map(({ eventId }) => indexOf(eventId)))].sort((a, b) => a - b);
    return [
      { bundle: bundleOf(first.eventId), destinations: [first.destinationId], indexes: runsOf(indexes) },
    ];
  });
}

export function deliveriesOf(plan: Plan): number {
  return Object.values(plan).reduce((sum, runs) => sum + lengthOf(runs), 0);
}

/** A version of an event's type, and when it was published, epoch ms. */
export type EventVersion = Readonly<{ version: number; since: number }>;

export type EventHeader = Readonly<{
  tenant: string;
  type: string;
  /** The bytes of its body. */
  bytes: number;
  tags?: readonly string[] | undefined;
  /** Channels route the event when it is accepted; later they are only shown. */
  channels?: readonly string[] | undefined;
  /** How long its deliveries may take from when it is due; undefined: as long as the destination's policy says. */
  ttlSeconds?: number | undefined;
  /** The media type of content that is sent as it was posted; undefined: the body is an envelope. */
  contentType?: string | undefined;
  /** Whether it was posted only for certain destinations. */
  isAddressed?: boolean | undefined;
  /** The version of its type that its data has; undefined: its type has only one. */
  version?: EventVersion | undefined;
}>;

/**
 * The header as it is stored: each name once, and for each event the positions of its tenant and type, and its bytes.
 * Fields that only some events have are absent from bundles without such events, so that they cost nothing there.
 */
export type StoredHeader = Readonly<{
  /**
   * Raised for features that code which does not know them must not ignore. 2: times to live, headers, content types,
   * erasures. 3: lines. 4: versions of types.
   */
  version: 1 | 2 | 3 | 4;
  /** How the bodies are stored. */
  encoding: "gzip" | "plain";
  /** CRC-32 of plain bodies; gzip has one of its own. */
  checksum?: number;
  tenants: readonly string[];
  types: readonly string[];
  events: readonly number[];
  /** The content types of those events that have one, by index. */
  contentTypes?: Readonly<Record<number, string>>;
  /** The idempotency keys of its events, each with its tenant: they are removed with the bundle. */
  keys?: readonly (readonly [tenant: string, key: string])[];
  /** Each tag with the position of its tenant and the events that have it. A trigger writes a row of `tags` for each. */
  tags?: readonly (readonly [tenant: number, tag: string, events: Runs])[];
  channels?: readonly (readonly [channel: string, events: Runs])[];
  /** The times to live, each with the events that have it. */
  ttls?: readonly (readonly [seconds: number, events: Runs])[];
  /** The bytes of the events' own request headers, which are stored behind the bodies. */
  headerBytes?: number;
  /** The events whose content has been erased: see core/erase.ts. */
  erased?: Runs;
  /** The events that were posted for certain destinations. */
  addressed?: Runs;
  /** The versions that events' types have beyond the first, and when those were published, with the events. */
  versions?: readonly (readonly [version: number, since: number, ...events: number[]])[];
  /** Which events are in lines, by destination. A trigger writes a row of `lines` for each. */
  lines?: Lines;
}>;

/** The lines of a bundle's events at a destination: the line, when they are given up, 1 where it holds, their indexes. */
export type Lines = Readonly<
  Record<string, readonly (readonly [line: string, giveUpAt: number, holds: 0 | 1, ...indexes: number[]])[]>
>;

/** Numbers that the header has for each event; the last of them are the bytes of its body. */
export const HEADER_FIELDS = 3;

export function storedHeader(
  events: readonly EventHeader[],
  stored: Pick<StoredHeader, "encoding" | "checksum" | "keys" | "headerBytes" | "lines">,
): StoredHeader {
  const tenants = [...new Set(events.map(({ tenant }) => tenant))];
  const types = [...new Set(events.map(({ type }) => type))];
  const positions = events.flatMap(({ tenant, type, bytes }) => [
    tenants.indexOf(tenant),
    types.indexOf(type),
    bytes,
  ]);
  const tags = tagsOf(events, tenants);
  const channels = withRuns(events.map((event) => event.channels ?? []));
  const ttls = withRuns(events.map(({ ttlSeconds }) => (ttlSeconds === undefined ? [] : [ttlSeconds])));
  const contentTypes = contentTypesOf(events);
  const addressed = runsOf(events.flatMap(({ isAddressed }, index) => (isAddressed ? [index] : [])));
  const versions = versionsOf(events);
  const isPlain = ttls.length === 0 && stored.headerBytes === undefined && contentTypes === undefined;
  return {
    version: versions ? 4 : stored.lines ? 3 : isPlain ? 1 : 2,
    ...stored,
    tenants,
    types,
    events: positions,
    ...(tags.length > 0 && { tags }),
    ...(channels.length > 0 && { channels }),
    ...(ttls.length > 0 && { ttls }),
    ...(contentTypes && { contentTypes }),
    ...(addressed.length > 0 && { addressed }),
    ...(versions && { versions }),
  };
}

function versionsOf(events: readonly EventHeader[]): StoredHeader["versions"] {
  const own = events.map(({ version }) => (version ? [version] : []));
  const found = withRuns(own, ({ version, since }) => `${version} ${since}`);
  if (found.length === 0) return undefined;
  return found.map(([{ version, since }, runs]) => [version, since, ...runs] as const);
}

/** The version of the data of the event at an index; undefined when its type had but one. */
function versionAt({ versions = [] }: Pick<StoredHeader, "versions">, index: number) {
  const found = versions.find(([, , ...events]) => runsInclude(events, index));
  return found && ({ version: found[0], since: found[1] } satisfies EventVersion);
}

function contentTypesOf(events: readonly EventHeader[]): StoredHeader["contentTypes"] {
  const own = events.flatMap(({ contentType }, index) =>
    contentType === undefined ? [] : [[index, contentType] as const],
  );
  return own.length === 0 ? undefined : Object.fromEntries(own);
}

function tagsOf(
  events: readonly EventHeader[],
  tenants: readonly string[],
): NonNullable<StoredHeader["tags"]> {
  const own = events.map(({ tenant, tags = [] }) =>
    [...new Set(tags)].map((tag) => ({ tenant: tenants.indexOf(tenant), tag })),
  );
  const found = withRuns(own, ({ tenant, tag }) => `${tenant} ${tag}`);
  return found.map(([{ tenant, tag }, runs]) => [tenant, tag, runs] as const);
}

/** Each value with the events that have it. @param values of each event, in the order of the events */
function withRuns<T>(
  values: readonly (readonly T[])[],
  nameOf: (value: T) => unknown = (value) => value,
): (readonly [value: T, events: Runs])[] {
  const given = values.flatMap((own, index) => [...new Set(own)].map((value) => ({ value, index })));
  return [...Map.groupBy(given, ({ value }) => nameOf(value)).values()].flatMap((group) =>
    group.slice(0, 1).map(({ value }) => [value, runsOf(group.map(({ index }) => index))] as const),
  );
}

export function tagsAt({ tags = [] }: Pick<StoredHeader, "tags">, index: number): string[] {
  return tags.flatMap(([, tag, events]) => (runsInclude(events, index) ? [tag] : []));
}

/** The channels of the event at an index, sorted: their order in the header depends on the other events. */
export function channelsAt({ channels = [] }: Pick<StoredHeader, "channels">, index: number): string[] {
  return channels.flatMap(([channel, events]) => (runsInclude(events, index) ? [channel] : [])).sort();
}

/** Whether the content of the event at an index has been erased. */
export function isErased({ erased = [] }: Pick<StoredHeader, "erased">, index: number): boolean {
  return runsInclude(erased, index);
}

/** The time to live of the event at an index; undefined when it has none. */
export function ttlAt({ ttls = [] }: Pick<StoredHeader, "ttls">, index: number): number | undefined {
  return ttls.find(([, events]) => runsInclude(events, index))?.[0];
}

export type RequestHeaders = Readonly<Record<string, string>>;

/** The events' own headers as JSON by index, to be stored behind the bodies; undefined when no event has any. */
export function headersText(headers: readonly (RequestHeaders | undefined)[]): string | undefined {
  const own = headers.flatMap((one, index) => (one === undefined ? [] : [[index, one] as const]));
  return own.length === 0 ? undefined : JSON.stringify(Object.fromEntries(own));
}

export function headerAt(header: StoredHeader, index: number): EventHeader | undefined {
  const { tenants, types, events, contentTypes } = header;
  const [tenant, type, bytes] = events.slice(index * HEADER_FIELDS, (index + 1) * HEADER_FIELDS);
  if (tenant === undefined || type === undefined || bytes === undefined) return undefined;
  const contentType = contentTypes?.[index];
  const version = versionAt(header, index);
  return {
    tenant: tenants[tenant] ?? "",
    type: types[type] ?? "",
    bytes,
    ...(contentType !== undefined && { contentType }),
    ...(version && { version }),
  };
}

/** All fields of an event in a header except its bytes. */
export type EventDetails = Omit<EventHeader, "bytes" | "isAddressed"> &
  Readonly<{
    tags: readonly string[];
    channels: readonly string[];
    /** Whether its content has been erased: it cannot be sent again. */
    isErased: boolean;
  }>;

export function detailsAt(header: StoredHeader, index: number): EventDetails | undefined {
  const { bytes, contentType, ...about } = headerAt(header, index) ?? {};
  if (bytes === undefined) return undefined;
  return {
    ...(about as Pick<EventHeader, "tenant" | "type" | "version">),
    tags: tagsAt(header, index),
    channels: channelsAt(header, index),
    ttlSeconds: ttlAt(header, index),
    contentType,
    isErased: isErased(header, index),
  };
}

export function headersOf(header: StoredHeader): EventHeader[] {
  return Array.from({ length: Math.floor(header.events.length / HEADER_FIELDS) }, (_, i) =>
    headerAt(header, i),
  ).filter((one) => one !== undefined);
}

/** The fields that decide which events may share a bundle. */
type Sized = Readonly<{
  bytes: number;
  /** Epoch ms; undefined: at once. */
  deliverAt?: number | undefined;
}>;

/**
 * The events of a request divided into bundles, by their positions: as few bundles as the limits allow, each of one
 * delivery time, in the given order.
 */
export function bundled(events: readonly Sized[]): number[][] {
  const bundles: number[][] = [];
  const open = new Map<number | undefined, { positions: number[]; bytes: number }>();
  for (const [position, { bytes, deliverAt }] of events.entries()) {
    let current = open.get(deliverAt);
    if (!current || current.positions.length >= MAX_EVENTS || current.bytes + bytes > MAX_BYTES) {
      current = { positions: [], bytes: 0 };
      open.set(deliverAt, current);
      bundles.push(current.positions);
    }
    current.positions.push(position);
    current.bytes += bytes;
  }
  return bundles;
}

/** The parts one after the other; a single one is not copied. */
export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const [only] = parts;
  if (parts.length === 1 && only) return only as Uint8Array<ArrayBuffer>;
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}
