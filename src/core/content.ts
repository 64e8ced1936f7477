/**
 * The content of an event: a JSON value that is stored and sent inside an envelope, or bytes with a content type of
 * their own, which are stored and sent as they were posted.
 */

/** Bytes that were posted with a content type of their own. */
export class Content {
  readonly type: string;
  readonly bytes: Uint8Array;

  /** @param type as the Content-Type header has it */
  constructor(type: string, bytes: Uint8Array) {
    this.type = type;
    this.bytes = bytes;
  }

  /** As CloudEvents writes it in JSON (JSON Event Format, section 3.1). */
  toJSON(): Readonly<{ content_type: string; data_base64: string }> {
    return { content_type: this.type, data_base64: this.bytes.toBase64() };
  }
}

export type Payload = Readonly<{ body: Uint8Array<ArrayBuffer>; contentType: string }>;

/** The body of a request to a destination: the whole envelope, or the data alone. */
export const bodyForms = ["envelope", "data"] as const;
export type BodyForm = (typeof bodyForms)[number];

/** A form that an edit by hand has made unknown counts as the default. */
export function bodyFormOf(stored: unknown): BodyForm {
  return stored === "data" ? "data" : "envelope";
}

/** @param timestamp in ISO 8601 */
export function envelopeOf(type: string, timestamp: string, data: unknown): string {
  return JSON.stringify({ type, timestamp, data });
}

const QUOTE = 0x22;
const TIMESTAMP_LENGTH = "2026-11-20T09:00:00.000Z".length;

/** Writes another timestamp, in ISO 8601 of the same length, over that of an envelope, in place. Other bytes stay as they are. */
export function stamp(envelope: Uint8Array, type: string, timestamp: string): void {
  const begin = `{"type":${JSON.stringify(type)},"timestamp":"`;
  const isEnvelope =
    envelope[begin.length - 1] === QUOTE && envelope[begin.length + TIMESTAMP_LENGTH] === QUOTE;
  if (!isEnvelope || timestamp.length !== TIMESTAMP_LENGTH) return;
  for (let i = 0; i < TIMESTAMP_LENGTH; i++) envelope[begin.length + i] = timestamp.charCodeAt(i);
}

/** The timestamp of an envelope, in ISO 8601. */
export function timestampIn(envelope: Uint8Array, type: string): string {
  const begin = new TextEncoder().encode(`{"type":${JSON.stringify(type)},"timestamp":"`).length;
  return new TextDecoder().decode(envelope.subarray(begin, envelope.indexOf(QUOTE, begin)));
}

/** The bytes of `data` in the UTF-8 of an envelope: the value to the digit, without white space around it. */
export function dataIn<T extends ArrayBufferLike>(envelope: Uint8Array<T>, type: string): Uint8Array<T> {
  const timestamp = `{"type":${JSON.stringify(type)},"timestamp":"`.length;
  const data = envelope.indexOf(QUOTE, timestamp) + `","data":`.length;
  return envelope.subarray(data, -1);
}
