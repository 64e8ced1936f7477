/**
 * The archive: whole exchanges with receivers, one object of a bucket (R2) for each archived attempt. D1 has the
 * request's body, as long as the event has its content, and the beginning of the answer; an object has the rest.
 *
 * An object's name is `attempts/event/destination/time`, with the event's number in as many digits as the largest, so
 * that names sort by events, and those of a database, of a range of time or of one event are next to each other. The
 * time is that of the attempt's entry in its delivery's log: it identifies an attempt for good, even if its number
 * changes.
 */

import { bodyForms } from "./content.ts";
import { parsedJson } from "./json-value.ts";
import { templates } from "./message-templates.ts";
import { readAs, type Shape, type ShapeType } from "./shape.ts";

/** The most bytes of an answer's body that are stored. */
export const MOST_BODY_BYTES = 65_536;

/** Which attempts are archived. `failed`: those that failed with an answer longer than the log stores. */
export const keptAttempts = ["failed", "all"] as const;

export type AttemptKey = Readonly<{
  event: number;
  destination: string;
  /** When the attempt started, epoch ms. */
  at: number;
}>;

/** The beginning of all names: the bucket may contain other objects. */
export const ARCHIVE = "attempts/";

/** The largest event number. */
export const MOST_EVENT = Number.MAX_SAFE_INTEGER;
const DIGITS = String(MOST_EVENT).length;
const EVENT_IN_NAME = new RegExp(`^${ARCHIVE}(\\d{${DIGITS}})/`);

export function archiveNameOf({ event, destination, at }: AttemptKey): string {
  return `${beginningOf(event)}${destination}/${at}`;
}

/** The beginning of the names of an event's attempts. */
function beginningOf(event: number): string {
  return `${ARCHIVE}${String(event).padStart(DIGITS, "0")}/`;
}

/** The event of an object; undefined when no attempt is called so. */
export function eventIn(name: string): number | undefined {
  const digits = EVENT_IN_NAME.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** A name that sorts after those of all events up to this number, and before those of later ones. */
export function nameBehind(event: number): string {
  return `${beginningOf(event)}~`;
}

/** The encoding of bytes: as text if they are UTF-8, or else in base64. */
export const encodings = ["utf-8", "base64"] as const;
export type Encoded = Readonly<{ encoding: (typeof encodings)[number]; body: string }>;

const text = { kind: "text" } as const;
const headers = { kind: "record", of: text } as const;

/** The fields of an object. `cut`: the body was longer than the stored part. */
const archived = {
  kind: "object",
  fields: {
    version: { kind: "choice", values: [1] },
    tenant: text,
    destination: text,
    at: { kind: "number" },
    request: {
      kind: "object",
      fields: {
        url: text,
        /** As they were sent; secrets and signatures are masked. */
        headers,
        /** The form in which the destination was sent the event then: with it the body is made again from the event. */
        form: {
          kind: "object",
          fields: {
            body: { kind: "choice", values: bodyForms },
            template: { kind: "choice", values: templates, nullable: true },
            /** By the destination's transformation, in the version that counts for the event. */
            transformed: { kind: "boolean", optional: true },
          },
          others: "dropped",
        },
      },
      others: "dropped",
    },
    /** Absent where there was none. */
    response: {
      kind: "object",
      fields: {
        status: { kind: "number", whole: true },
        headers,
        encoding: { kind: "choice", values: encodings },
        body: text,
        cut: { kind: "boolean" },
      },
      others: "dropped",
      optional: true,
    },
  },
  others: "dropped",
} as const satisfies Shape;

export type ArchivedExchange = Readonly<ShapeType<typeof archived>>;

/** No object is larger: a body of the most bytes in base64, or of characters that JSON escapes, and the other fields. */
export const MOST_OBJECT_BYTES = 6 * MOST_BODY_BYTES + 262_144;

/**
 * The exchange in an object; undefined when it is not of this attempt, or cannot be read. A bucket may be older than
 * the database beside it, whose numbers then begin again: so the object itself names its attempt.
 */
export function exchangeIn(
  text: string,
  { destination, at }: AttemptKey,
  tenant: string,
): ArchivedExchange | undefined {
  const data = readAs(archived, parsedJson(text));
  const isMeant = data?.tenant === tenant && data.destination === destination && data.at === at;
  return isMeant ? data : undefined;
}
