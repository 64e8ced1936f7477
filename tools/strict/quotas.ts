/**
 * Cloudflare's limits for one invocation of a Worker, and the errors of production. The local runtime enforces few of
 * them. Figures and messages are from the documentation, workerd's source and reports from production, autumn 2026;
 * those that could not be confirmed are marked [?].
 */
export type Quotas = Readonly<{
  /** D1 statements; each statement of a batch counts. */
  d1Queries: number;
  /** Values bound to one statement. */
  d1Parameters: number;
  /** UTF-8 bytes of one statement's text. */
  d1StatementBytes: number;
  /** UTF-8 bytes of one value, bound or read. A row has the same limit, which is not counted here. */
  d1ValueBytes: number;
  /** Messages in one `sendBatch`. */
  queueBatchMessages: number;
  /** Bytes of one `sendBatch`, the platform's own included. */
  queueBatchBytes: number;
  /** Bytes of one message, the platform's own included. */
  queueMessageBytes: number;
  /** Whole seconds that a message can be delayed. */
  queueDelaySeconds: number;
  /** Requests that wait for their headers at the same time: fetches and queue sends. More wait. */
  connections: number;
  /** Timers that run at the same time. */
  timers: number;
  /** Calls to anything outside: D1, gates, queues, fetches. */
  subrequests: number;
  /** How long after its handler has returned work in `waitUntil` is cut off. */
  waitUntilMs: number;
  /** Bytes of log lines; later lines are dropped. */
  logBytes: number;
  /** The bytes of bodies that one invocation may hold: a third of an isolate's 128 MB. See `Invocation.holding`. */
  bodyBytes: number;
}>;

export type Quota = keyof Quotas;

export const QUOTAS: Quotas = {
  d1Queries: 1_000,
  d1Parameters: 100,
  d1StatementBytes: 100_000,
  d1ValueBytes: 2_000_000,
  queueBatchMessages: 100,
  queueBatchBytes: 256_000,
  queueMessageBytes: 128_000,
  queueDelaySeconds: 86_400,
  connections: 6,
  timers: 10_000,
  subrequests: 10_000,
  waitUntilMs: 30_000,
  logBytes: 256_000,
  bodyBytes: 42_000_000,
};

/** "Messages can include up to about 100 bytes of internal metadata", and they count. */
export const MESSAGE_METADATA_BYTES = 100;

/** The notice that Workers Logs shows instead of dropped lines. */
export const LOG_LIMIT_LINE =
  "Log size limit exceeded: More than 256KB of data (across console.log statements, exception, request metadata and headers) was logged during a single request. Subsequent logs for this request will not be recorded in logs, appear when tailing this Worker's logs, or in Tail Workers.";

const CONFIGURE =
  "To configure this limit, refer to https://developers.cloudflare.com/workers/wrangler/configuration/#limits";

/** The errors of production when a quota is exceeded. */
export const quotaErrors = {
  d1Queries: () => new Error("D1_ERROR: Too many API requests by single worker invocation."),
  d1StatementBytes: () => new Error("D1_ERROR: statement too long: SQLITE_TOOBIG"),
  d1ValueBytes: () => new Error("D1_ERROR: string or blob too big: SQLITE_TOOBIG"),
  queueBatchMessages: (count: number, limit: number) =>
    new Error(`batch message count of ${count} exceeds limit of ${limit} (10206)`),
  queueBatchBytes: (bytes: number, limit: number) =>
    new Error(`batch size of ${bytes} bytes exceeds limit of ${limit} bytes (10205)`),
  queueMessageBytes: (bytes: number, limit: number) =>
    new Error(`message length of ${bytes} bytes exceeds limit of ${limit} (10204)`),
  subrequests: () => new Error(`Too many subrequests by single Worker invocation. ${CONFIGURE}`),
} as const;

/** The other errors of production. */
export const productionErrors = {
  /** @param offset of the first parameter too many in the statement */
  d1Parameters: (offset: number) =>
    new Error(`D1_ERROR: too many SQL variables at offset ${offset}: SQLITE_ERROR`),
  queueBatchEmpty: () => new TypeError("sendBatch() requires at least one message"),
  /** [?] The code is documented, the words are ours. */
  queueDelaySeconds: (delay: unknown, limit: number) =>
    new Error(`message delay of ${delay} is not a whole number of seconds from 0 to ${limit} (10203)`),
  timers: (active: number, limit: number, finished: number) =>
    new DOMException(
      `You have exceeded the number of active timeouts you may set. max active timeouts: ${limit}, current active timeouts: ${active}, finished timeouts: ${finished}`,
      "QuotaExceededError",
    ),
} as const;

/** UTF-8 bytes of a text, counted exactly only if the limit could be near. */
export function bytesNear(text: string, limitBytes: number): number {
  return text.length * 3 > limitBytes ? utf8Bytes(text) : text.length;
}

export function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}

/** The bytes that V8 needs for a text: one for each character, or two as soon as one of them is outside of Latin-1. */
export function heapBytes(text: string): number {
  return /[\u0100-\uffff]/.test(text) ? text.length * 2 : text.length;
}
