/**
 * Exchanges with receivers, signed, over the connections of one invocation. An exchange never throws: whatever
 * goes wrong on the way is an outcome. Redirects are not followed, and no more of an answer is read than its operator
 * needs to see.
 */
import type { AttemptError } from "../core/reasons.ts";
import { type Exchange, exchangeOf } from "../core/retry/classify.ts";
import { type StatedLimits, statedLimits } from "../core/retry/retry-after.ts";
import type { LoadedDelivery } from "../db/deliveries.ts";
import type { Destination } from "../db/destinations.ts";
import { eventId } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { Signer } from "./signature.ts";

export type Call = Readonly<{
  exchange: Exchange;
  startedAt: number;
  endedAt: number;
  /** Where a redirect would have led: it is not followed. */
  location?: string;
  /** The beginning of a refusal's body. */
  excerpt?: string;
  /** How many more requests the receiver says it will take. */
  limits?: StatedLimits;
  /** The runtime's error. */
  fault?: string;
}>;

/** A signed event on its way to a receiver. */
export type Outgoing = Readonly<{
  /** The event's type. */
  type: string;
  headers: Readonly<Record<string, string>>;
  body: string;
  signal: AbortSignal;
}>;

/**
 * Hands an event to a receiver, over whatever the destination's kind uses (kinds/kind.ts), and returns its response.
 * Throws when there is none: an `ExchangeFailure`, or an error of the runtime.
 */
export type Post = (outgoing: Outgoing) => Promise<Response>;

/** An exchange without a response, of which the cause is known. */
export class ExchangeFailure extends Error {
  override readonly name = "ExchangeFailure";
  readonly kind: AttemptError;

  constructor(kind: AttemptError, message: string) {
    super(message);
    this.kind = kind;
  }
}

type Order = Readonly<{
  post: Post;
  type: string;
  /** Made for the time at which the call starts. */
  headers: (at: number) => Promise<Record<string, string>>;
  body: string;
  timeoutMs: number;
}>;

/** As much of a refusal as its operator needs to see; the rest is never read. */
const EXCERPT_BYTES = 512;

/** The timeout starts here. */
export async function call(
  services: Services,
  { post, type, headers, body, timeoutMs }: Order,
): Promise<Call> {
  const startedAt = services.now();
  try {
    const signed = await headers(startedAt);
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await post({ type, headers: signed, body, signal });
    const answer = await readAnswer(response, services.now());
    return { startedAt, endedAt: services.now(), ...answer };
  } catch (error) {
    return { startedAt, endedAt: services.now(), exchange: failureOf(error), fault: faultOf(error) };
  }
}

type Answer = Pick<Call, "exchange" | "location" | "excerpt" | "limits">;

async function readAnswer(response: Response, now: number): Promise<Answer> {
  const { status, headers } = response;
  const header = (name: string) => headers.get(name);
  const location = header("location");
  const limits = statedLimits(header, response.ok, now);
  const excerpt = response.ok ? await unread(response) : await excerptOf(response);
  return {
    exchange: exchangeOf({ status, header, excerpt }),
    ...(location !== null && isRedirect(status) && { location }),
    ...(limits && { limits }),
    ...(excerpt && { excerpt }),
  };
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

/** A success needs no explanation: its body is not read. */
async function unread({ body }: Response): Promise<undefined> {
  // An error of a body that nobody reads changes nothing.
  await body?.cancel().catch(() => {});
}

/** Of a body that breaks off, what has arrived. */
async function excerptOf({ body }: Response): Promise<string> {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let left = EXCERPT_BYTES;
  try {
    while (reader && left > 0) {
      const { value, done } = await reader.read();
      if (done) break;
      text += decoder.decode(value.subarray(0, left), { stream: true });
      left -= value.byteLength;
    }
    await reader?.cancel();
  } catch {
    // The status has arrived; how the body ended changes nothing.
  }
  return text;
}

/**
 * The runtime distinguishes failures by name and message only. "Network connection lost." is its message when nobody
 * listens at the port, and also when the receiver breaks off after it has read the request: whether the request
 * arrived is not known, so only an error that names a refusal is called one.
 */
function failureOf(error: unknown): Exchange {
  if (error instanceof ExchangeFailure) return { kind: error.kind };
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  if (name === "TimeoutError" || name === "AbortError") return { kind: "timeout" };
  if (/network connection lost/i.test(message)) return { kind: "connection_lost" };
  if (/connection refused/i.test(message)) return { kind: "refused" };
  if (/\b(tls|ssl|certificate)\b/i.test(message)) return { kind: "tls" };
  if (/dns|name not resolved|enotfound/i.test(message)) return { kind: "dns" };
  return { kind: "network" };
}

/** One attempt: one signed exchange for a delivery. */
export type Attempt = Readonly<{ delivery: LoadedDelivery }> & Call;

/** What is sent: `id` and `body` are signed, and the same on every attempt. `attempt` is its number, from 1. */
export type Message = Readonly<{ id: string; body: string; attempt: number }>;

export type How = Readonly<{ timeoutMs: number; signer: Signer; post: Post }>;

export const USER_AGENT = "Breakwater/0.1 (webhooks)";

/** Makes the attempt. The timeout starts here, so call it only when a connection is free. */
export async function send(
  services: Services,
  delivery: LoadedDelivery,
  { timeoutMs, signer, post }: How,
): Promise<Attempt> {
  const { event, destination, row } = delivery;
  const { body } = event;
  if (typeof body !== "string") throw new Error("A delivery without its body must not be attempted");
  const message = { id: eventId(event.id), body, attempt: (row?.attempts ?? 0) + 1 };
  const headers = (at: number) => headersOf(destination, message, signer, at);
  return { delivery, ...(await call(services, { post, type: event.type, headers, body, timeoutMs })) };
}

/**
 * Ours are set over the destination's own, whose names may be spelled in any case. A plain object: the
 * request makes its `Headers` from it once.
 */
export async function headersOf(
  { headers }: Pick<Destination, "headers">,
  { id, body, attempt }: Message,
  signer: Signer,
  at: number,
): Promise<Record<string, string>> {
  const own = Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    ...(Object.fromEntries(own) as Record<string, string>),
    "content-type": "application/json",
    "user-agent": USER_AGENT,
    "webhook-attempt": String(attempt),
    ...(await signer(id, body, at)),
  };
}

/**
 * The six connections of one invocation, fairly shared between destinations.
 *
 * The platform silently queues the seventh fetch of an invocation, and a timeout that is already running would then
 * blame a healthy destination. So the limit is enforced here, before any timeout starts. Where several destinations
 * share the connections, the last free one goes only to one that holds none: a destination that hangs can slow its own
 * deliveries, and nobody else's.
 */
export const CONNECTIONS = 6;

type Waiter = Readonly<{ destination: string; start: () => void }>;

export type Connections = Readonly<{
  /** Runs the task as soon as it is its destination's turn for a connection. */
  run: <T>(destination: string, task: () => Promise<T>) => Promise<T>;
}>;

/** @param destinations how many will share them, including those that have no task at the moment */
export function connections(destinations: number): Connections {
  const held = new Map<string, number>();
  const waiting: Waiter[] = [];
  let free = CONNECTIONS;

  const heldBy = (destination: string) => held.get(destination) ?? 0;

  /** The first of those whose destination holds the fewest. */
  function fewestFirst(): Waiter | undefined {
    let [best] = waiting;
    for (const waiter of waiting)
      if (best && heldBy(waiter.destination) < heldBy(best.destination)) best = waiter;
    return best;
  }

  function assignNext(): void {
    const next = free > 0 ? fewestFirst() : undefined;
    if (!next || (free === 1 && heldBy(next.destination) > 0 && destinations > 1)) return;
    waiting.splice(waiting.indexOf(next), 1);
    take(next.destination, 1);
    next.start();
    assignNext();
  }

  function take(destination: string, count: 1 | -1): void {
    free -= count;
    const now = heldBy(destination) + count;
    if (now > 0) held.set(destination, now);
    else held.delete(destination);
  }

  async function run<T>(destination: string, task: () => Promise<T>): Promise<T> {
    await new Promise<void>((start) => {
      waiting.push({ destination, start });
      assignNext();
    });
    try {
      return await task();
    } finally {
      take(destination, -1);
      assignNext();
    }
  }

  return { run };
}

type Headers = Readonly<Record<string, string>>;

const MASK = "***";

/**
 * Headers as they may be shown: a destination's own may be credentials, so their values are masked.
 * @param own a destination's own headers; their names may be spelled in any case
 */
export function maskedHeaders(headers: Headers, own: Headers): Record<string, string> {
  const secret = new Set(Object.keys(own).map((name) => name.toLowerCase()));
  const shown = Object.entries(headers).map(([name, value]) => {
    return [name, secret.has(name.toLowerCase()) ? MASK : value] as const;
  });
  return Object.fromEntries(shown);
}
