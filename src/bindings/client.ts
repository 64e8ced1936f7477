/**
 * Breakwater for another Worker: the types of its service binding, and `unwrap`, which turns a problem into an
 * exception. This file imports nothing: copy it into the Worker that calls.
 */

/** The calls that the binding's Worker offers: `interface Env { EVENTS: BreakwaterEvents }`. No call throws a problem. */
export type BreakwaterEvents = Readonly<{
  /** Stores an event; once it is accepted, it is delivered at least once to each destination that takes it. */
  send: (event: NewEvent, options?: SendOptions) => Promise<Result<AcceptedEvent>>;
  /** Stores up to 1,000 events, 1 MiB as JSON, all or none. */
  sendBatch: (
    events: readonly NewEvent[],
    options?: SendOptions,
  ) => Promise<Result<readonly AcceptedEvent[]>>;
  /** An event and its deliveries. */
  event: (id: string) => Promise<Result<StoredEvent>>;
  /** One delivery with its attempts. */
  delivery: (id: string) => Promise<Result<Delivery>>;
}>;

export type NewEvent = Readonly<{
  /** Letters, digits, `_` and `-`, in parts joined by dots: `order.created`. */
  type: string;
  /**
   * Any value that JSON can express, at most 256 KiB of it. A `Date` becomes its ISO text, a `bigint` a number with all
   * of its digits; other values without a form in JSON (`NaN`, a `Map`, bytes, a function) are refused.
   */
  data: unknown;
  /** By default the binding's tenant if it has one, else `default`. */
  tenant?: string | undefined;
  /** Not delivered before, at most 30 days ahead; a text is ISO 8601 with an offset. */
  deliver_at?: string | Date | undefined;
  /** Only these of the tenant's destinations get it, as far as they take it. */
  destination_ids?: readonly string[] | undefined;
  /** Names by which deliveries can be listed and replayed; they are not sent. */
  tags?: readonly string[] | undefined;
  /** Destinations with channels get it only when it has one of theirs: up to 5; they are not sent. */
  channels?: readonly string[] | undefined;
  /** Seconds after which deliveries that have not succeeded are given up. */
  ttl?: number | undefined;
  /** To be sent with its deliveries. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Destinations with `ordering` get events with the same key in order: up to 128 characters; excludes `deliver_at`. */
  ordering_key?: string | undefined;
  /** Refuse it unless its data fits the schema of its type. */
  validate?: boolean | undefined;
  /** Refuse it unless this is the newest version of its type. */
  version?: number | undefined;
}>;

export type SendOptions = Readonly<{
  /** Repeated with the same content, a call gets its first result again: 1 to 255 printable ASCII characters. */
  idempotency_key?: string | undefined;
}>;

/** A call's value, or why there is none. */
export type Result<T> =
  | Readonly<{
      ok: true;
      value: T;
      /** Present when an earlier call with the same key stored the events. */
      idempotent_replayed?: true | undefined;
    }>
  | Readonly<{ ok: false; problem: Problem }>;

/** A problem, as the HTTP API answers it in `application/problem+json`. */
export type Problem = Readonly<{
  type: string;
  title: string;
  /** As over HTTP: 401 and 403 for the binding's props, 409, 413 and 422 for the call, 429 and 503 for later. */
  status: number;
  detail: string;
  /** The fields at fault. */
  errors?: readonly Readonly<{ field: string; fault: string; expected: string }>[] | undefined;
  /** When to try again, in seconds from now. */
  retry_after_s?: number | undefined;
}>;

export type AcceptedEvent = Readonly<{
  id: string;
  /** Present when the event is scheduled for later. */
  deliver_at?: string | undefined;
  /** Present when no destination takes the event. */
  hint?: string | undefined;
  deliveries: readonly Readonly<{ id: string; destination_id: string; state: "queued" }>[];
}>;

export type StoredEvent = Readonly<{
  id: string;
  tenant: string;
  type: string;
  /** When it was accepted. */
  timestamp: string;
  deliver_at?: string | undefined;
  tags?: readonly string[] | undefined;
  channels?: readonly string[] | undefined;
  ttl?: number | undefined;
  /** The values are shown to a scope that a binding cannot have. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Present when the event was posted as content of its own type. */
  content_type?: string | undefined;
  /** Present when the content has been erased: `data` is null. */
  content?: "erased" | undefined;
  /** For content, its text. A whole number that a JavaScript number cannot hold is a `bigint`. */
  data?: unknown;
  /** In place of `data`, for content that is not UTF-8. */
  data_base64?: string | undefined;
  deliveries: readonly Delivery[];
}>;

export type Delivery = Readonly<{
  id: string;
  event_id: string;
  destination_id: string;
  state: "queued" | "waiting" | "retrying" | "delivered" | "dead" | "cancelled";
  reason?: string | undefined;
  attempts: number;
  next_attempt_at?: string | undefined;
  waiting_until?: string | undefined;
  give_up_at: string;
  last_status?: number | undefined;
  last_error?: string | undefined;
  delivered_at?: string | undefined;
  log: readonly Readonly<{
    at: string;
    status?: number | undefined;
    latency_ms: number;
    error?: string | undefined;
    note?: string | undefined;
    response?: string | undefined;
  }>[];
}>;

/** Thrown by `unwrap`, in the Worker that calls: errors lose class and fields on their way between Workers. */
export class BreakwaterProblem extends Error {
  override readonly name = "BreakwaterProblem";
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(`${problem.status} ${problem.title}: ${problem.detail}`);
    this.problem = problem;
  }
}

/** The value of a result; throws a `BreakwaterProblem` if there is none. */
export function unwrap<T>(result: Result<T>): T {
  if (!result.ok) throw new BreakwaterProblem(result.problem);
  return result.value;
}
