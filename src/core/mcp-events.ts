/**
 * The computed parts of MCP Events: cursors, lifetimes, the identity of a subscription, the schemas of a listed event
 * type, and the body of a delivery. Pinned to SEP-3415 (docs/mcp.md).
 */
import { joined } from "./bundle.ts";
import { dataIn, timestampIn } from "./content.ts";
import { isJsonObject } from "./json-value.ts";

/** A server names the extension in its capabilities; a client that names it in a request follows the SEP to the letter. */
export const EVENTS_EXTENSION = "io.modelcontextprotocol/events";

/** The name under which text of senders, receivers and customers appears. */
export const OUTSIDE = "data_not_instructions";

/** A position in a tenant's log of events. */
export type EventCursor = Readonly<{
  /** All events accepted before this are behind it, epoch ms. */
  at: number;
  /** By database: the last event that is behind it. Absent if only the time is known. */
  positions?: readonly number[];
}>;

/** The cursor as clients keep it. */
export function cursorText({ at, positions = [] }: EventCursor): string {
  return [at, ...positions].map((number) => number.toString(36)).join(".");
}

export function cursorIn(text: string): EventCursor | undefined {
  if (!/^[0-9a-z]{1,9}(\.[0-9a-z]{1,11}){0,8192}$/.test(text)) return undefined;
  const [at = 0, ...positions] = text.split(".").map((part) => Number.parseInt(part, 36));
  if (![at, ...positions].every(Number.isSafeInteger)) return undefined;
  return positions.length > 0 ? { at, positions } : { at };
}

const MINUTE_MS = 60_000;
const LEAST_MS = 5 * MINUTE_MS;
const USUAL_MS = 60 * MINUTE_MS;
const MOST_MS = 24 * 60 * MINUTE_MS;

/** How long a subscription lasts. @param asked by the client: null requests no end, undefined the default */
export function lifetimeMs(asked: number | null | undefined): number {
  if (asked === undefined) return USUAL_MS;
  return Math.min(Math.max(asked ?? MOST_MS, LEAST_MS), MOST_MS);
}

/** How long after its event a delivery is given up: a client can fetch missed events with its cursor. */
const RETRIED_S = 15 * 60;

/** The draft's bounds: five attempts in a quarter of an hour. */
export const subscriptionRetry = {
  schedule: [30, 120, 300, 300],
  jitter: { proportional: 0.2 },
  max_attempts: 5,
  give_up_after: RETRIED_S,
  expire_unattempted_after: RETRIED_S,
} as const;

/** Every delivery of an event that was accepted before has ended: at most this long it waits, and this long it is tried. */
export function endedBefore(now: number): number {
  return now - 2 * RETRIED_S * 1000 - MINUTE_MS;
}

type Schema = Readonly<Record<string, unknown>>;

function isObjectSchema(schema: unknown): schema is Schema {
  return isJsonObject(schema) && schema.type === "object";
}

/** The schema of `data` in a delivery: events whose data is no object have it as `value`. */
export function payloadSchemaOf(schema: unknown): Schema {
  if (isObjectSchema(schema)) return schema;
  const other = isJsonObject(schema) && schema.type !== undefined;
  return { type: "object", ...(other && { properties: { value: schema }, required: ["value"] }) };
}

/** The schema of a subscription's arguments, which are a filter. */
export function inputSchemaOf(schema: unknown): Schema {
  const named = isObjectSchema(schema) ? schema.properties : undefined;
  const names = Object.keys(isJsonObject(named) ? named : {});
  return {
    type: "object",
    description:
      "Conditions on the event's data, all of which must hold; {} takes every event. A key is a dotted path in data. A condition is a value, " +
      'a list of values of which it must be one, or operators: {"gte": 100}, {"prefix": "a"}, {"exists": true}, {"not": …}.',
    properties: Object.fromEntries(
      names.map((name) => [name, { description: `A condition on data.${name}.` }]),
    ),
  };
}

const encoder = new TextEncoder();
const BRACE = 0x7b;

/** The body of a delivery: an event occurrence. @param envelope as the event is stored; its data stays to the digit */
export function occurrenceOf(
  envelope: Uint8Array,
  { id, type, cursor }: Readonly<{ id: string; type: string; cursor?: string | null }>,
): Uint8Array<ArrayBuffer> {
  const data = dataIn(envelope, type);
  const isObject = data[0] === BRACE;
  const about = { eventId: id, name: type, timestamp: timestampIn(envelope, type) };
  const before = `${JSON.stringify(about).slice(0, -1)},"data":${isObject ? "" : '{"value":'}`;
  const rest = { ...(cursor && { cursor }), _meta: { [`breakwater/${OUTSIDE}`]: ["data"] } };
  const after = `${isObject ? "" : "}"},${JSON.stringify(rest).slice(1)}`;
  return joined([encoder.encode(before), data, encoder.encode(after)]);
}
