/**
 * Exchanges with receivers, signed, over the connections of one invocation. An exchange never throws: every failure is
 * an outcome. Redirects are not followed, and no more of an answer is read than its operator needs to see.
 */
import { bodyFormOf, dataIn, type Payload } from "../core/content.ts";
import type { AttemptError } from "../core/reasons.ts";
import { type Exchange, exchangeOf } from "../core/retry/classify.ts";
import { type StatedLimits, statedLimits } from "../core/retry/retry-after.ts";
import type { TransformedRequest } from "../core/transform/result.ts";
import { eventId } from "../ids.ts";
import { faultOf } from "../log.ts";
import { MARKER, markerOf, USER_AGENT } from "../secrets/deployment-marker.ts";
import type { ArchivableResult, Services } from "../services.ts";
import type { LoadedDelivery } from "../store/deliveries.ts";
import type { Destination } from "../store/destination.ts";
import { unlessAborted } from "../time.ts";
import { type Credentials, type Headers, type Renewal, withoutValues } from "./authorization.ts";
import { type Signer, sentSecrets } from "./signature.ts";

export type OutgoingCall = Readonly<{
  exchange: Exchange;
  startedAt: number;
  endedAt: number;
  /** The target of a redirect, which is not followed. */
  location?: string;
  /** The beginning of the body: of a refusal's, or of any if the order has `isShown`. */
  excerpt?: string;
  /** The response's headers, if the order has `isShown`. */
  headers?: Readonly<Record<string, string>>;
  /** The whole exchange is stored: see archiver.ts. */
  isArchived?: true;
  /** How many more requests the receiver says it will take. */
  limits?: StatedLimits;
  /** The error of the runtime, or of a service. */
  fault?: string;
}>;

/** A signed event on its way to a receiver. */
export type Outgoing = Readonly<{
  /** The event's type. */
  type: string;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array<ArrayBuffer>;
  signal: AbortSignal;
  /** The method, path and query that a transformation has set; absent: POST to the destination's URL. */
  way?: Way | undefined;
}>;

/** A request's method, and what is appended to the destination's URL. */
export type Way = Pick<TransformedRequest, "method" | "path" | "query">;

/**
 * Hands an event to a receiver, over whatever the destination's kind uses (kinds/kind.ts), and returns its response.
 * Throws if there is no response: an `ExchangeFailure`, or an error of the runtime.
 */
export type PostRequest = (outgoing: Outgoing) => Promise<Response>;

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
  post: PostRequest;
  type: string;
  /** Signed for the time at which the call starts. */
  headers: (at: number) => Promise<Record<string, string>>;
  body: Uint8Array<ArrayBuffer>;
  way?: Way | undefined;
  /** Credentials that only the receiver may see; after a 401 the request is made once more with other ones. */
  credentials: Credentials;
  /** Further secrets in the headers, which a receiver may repeat and nobody else may see. */
  secretsIn?: ((headers: Readonly<Record<string, string>>) => readonly string[]) | undefined;
  timeoutMs: number;
  /** Called when the headers have arrived: from then on the exchange needs no connection of the invocation. */
  answered?: (() => void) | undefined;
  /** Reads the headers and the beginning of the body of a success too. */
  isShown?: boolean;
  /** Archives the exchange, if it is to be archived. */
  archive?: ((arrived: ArchivableResult) => boolean) | undefined;
}>;

/** The part of a refusal that D1 stores. Only the archive reads the rest, if there is one. */
export const EXCERPT_BYTES = 4096;

/** The timeout starts here. It is for the whole exchange, what is read of the body included. */
export async function call(services: Services, order: Order): Promise<OutgoingCall> {
  const { timeoutMs, credentials, isShown = false } = order;
  const startedAt = services.now();
  const sent: Record<string, string>[] = [];
  const headersAt = async (at: number) => {
    const headers = await order.headers(at);
    sent.push(headers);
    return headers;
  };
  const secrets = () => [
    ...credentials.secrets(),
    ...sent.flatMap((headers) => order.secretsIn?.(headers) ?? []),
  ];
  const archive = (answer?: ArchivableResult["answer"]) =>
    order.archive?.({ startedAt, secrets, ...(answer && { answer }) }) ?? false;
  try {
    const headers = await headersAt(startedAt);
    const signal = AbortSignal.timeout(timeoutMs);
    const outgoing = (headers: Record<string, string>) => ({
      type: order.type,
      headers,
      body: order.body,
      signal,
      way: order.way,
    });
    const response = await order.post(outgoing(headers));
    const renewal = response.status === 401 ? await renewed(credentials, headers, signal) : undefined;
    const isRenewed = renewal?.kind === "renewed";
    if (isRenewed) await unread(response);
    const last = isRenewed ? await order.post(outgoing(await headersAt(services.now()))) : response;
    order.answered?.();
    const answer = await readAnswer(last, services.now(), { secrets, archive, isShown });
    const exchange = renewal?.kind === "failed" ? { kind: renewal.reason, status: 401 } : answer.exchange;
    return { startedAt, endedAt: services.now(), ...answer, exchange };
  } catch (error) {
    // A service's error is its own text, and may repeat what was sent to it.
    const fault = withoutValues(faultOf(error), secrets());
    const endedAt = services.now();
    return { startedAt, endedAt, exchange: failureOf(error), fault, ...(archive() && { isArchived: true }) };
  }
}

/** Within the attempt's time; otherwise there is no token. */
async function renewed({ renew }: Credentials, sent: Headers, signal: AbortSignal) {
  if (!renew) return undefined;
  return unlessAborted(renew(sent), signal).catch((error): Renewal => {
    if (!signal.aborted) throw error;
    return { kind: "failed", reason: "token_unavailable" };
  });
}

type Answer = Pick<OutgoingCall, "exchange" | "location" | "headers" | "excerpt" | "limits" | "isArchived">;

type Reading = Readonly<{
  secrets: () => readonly string[];
  archive: (answer: ArchivableResult["answer"]) => boolean;
  isShown: boolean;
}>;

async function readAnswer(
  response: Response,
  now: number,
  { secrets, archive, isShown }: Reading,
): Promise<Answer> {
  const { status, headers } = response;
  const header = (name: string) => headers.get(name);
  const location = isRedirect(status) ? header("location") : null;
  const limits = statedLimits(header, response.ok, now);
  // A success needs no explanation: its body is not read here.
  const isRead = isShown || !response.ok;
  const { chunks, rest } = isRead
    ? await beginningOf(response)
    : { chunks: [], rest: response.body?.getReader() };
  const excerpt = isRead ? excerptIn(chunks) : undefined;
  const isArchived = archive({ response, excerpt, chunks, rest });
  // An error of an unread body changes nothing.
  if (rest && !isArchived) await rest.cancel().catch(() => {});
  return {
    exchange: exchangeOf({ status, header, excerpt }),
    ...(location !== null && { location: withoutValues(location, secrets()) }),
    ...(limits && { limits }),
    ...(isShown && { headers: shownHeaders(headers, secrets()) }),
    ...(excerpt && { excerpt: withoutValues(excerpt, secrets()) }),
    ...(isArchived && { isArchived }),
  };
}

const SHOWN_HEADERS = 100;
const SHOWN_HEADER_CHARACTERS = 1000;

function shownHeaders(
  headers: Response["headers"],
  secrets: readonly string[],
): Readonly<Record<string, string>> {
  const shown = (value: string) => withoutValues(value, secrets).slice(0, SHOWN_HEADER_CHARACTERS);
  return Object.fromEntries(
    [...headers].slice(0, SHOWN_HEADERS).map(([name, value]) => [name, shown(value)]),
  );
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

async function unread({ body }: Response): Promise<void> {
  await body?.cancel().catch(() => {});
}

type Beginning = Pick<NonNullable<ArchivableResult["answer"]>, "chunks" | "rest">;

/** At least `EXCERPT_BYTES` of a body, or all of it; if it breaks off, the part that has arrived. */
async function beginningOf({ body }: Response): Promise<Beginning> {
  const rest = body?.getReader();
  const chunks: Uint8Array[] = [];
  let left = EXCERPT_BYTES;
  try {
    while (rest && left > 0) {
      const { value, done } = await rest.read();
      if (done) return { chunks };
      chunks.push(value);
      left -= value.byteLength;
    }
    return { chunks, rest };
  } catch {
    // The status has arrived; how the body ended changes nothing.
    return { chunks };
  }
}

function excerptIn(chunks: readonly Uint8Array[]): string {
  const decoder = new TextDecoder();
  let text = "";
  let left = EXCERPT_BYTES;
  for (const chunk of chunks) {
    text += decoder.decode(chunk.subarray(0, left), { stream: true });
    left -= chunk.byteLength;
  }
  return text;
}

export async function excerptOf(response: Response): Promise<string> {
  const { chunks, rest } = await beginningOf(response);
  await rest?.cancel().catch(() => {});
  return excerptIn(chunks);
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

export type Attempt = Readonly<{ delivery: LoadedDelivery }> & OutgoingCall;

/** The message that is sent: all except `attempt`, its number from 1, is the same on every attempt. */
export type Message = Readonly<{
  id: string;
  type: string;
  attempt: number;
  /** The event's own request headers. */
  headers?: Headers | undefined;
}> &
  Payload;

/** The bytes decoded as UTF-8, a byte order mark included; undefined if they are not UTF-8. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The text encoded as UTF-8, as a body. */
export function bodyOfText(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new TextEncoder().encode(text));
}

/** The text, if people can read it: only binary content has a NUL. */
export function readable(text: string | undefined): string | undefined {
  return text?.includes("\0") ? undefined : text;
}

/** The payload of an event as it was posted: for JSON the envelope or only the data, otherwise the whole content. */
export function plainPayload(
  {
    type,
    body,
    contentType,
  }: Readonly<{ type: string; contentType?: string | undefined }> & Pick<Payload, "body">,
  destination: Pick<Destination, "body">,
): Payload {
  if (contentType !== undefined) return { body, contentType };
  const isWhole = bodyFormOf(destination.body) === "envelope";
  return { body: isWhole ? body : dataIn(body, type), contentType: "application/json" };
}

/** The request of an attempt: as the destination's transformation has made it, or the event as it is. */
export type EventRequest = Readonly<{
  payload: Payload;
  way?: Way;
  /** The event's and the transformation's, in lower case. */
  headers?: Headers | undefined;
}>;

function requestOf({ event, destination, transformed: made, payload }: LoadedDelivery): EventRequest {
  const { body, headers } = event;
  if (!body || (made && made.kind !== "request"))
    throw new Error("A delivery without a body to send must not be attempted");
  return made
    ? transformedRequest(made, headers)
    : { payload: payload ?? plainPayload({ ...event, body }, destination), headers };
}

/** @param posted the event's own request headers: those of the transformation replace them */
export function transformedRequest(made: TransformedRequest, posted: Headers = {}): EventRequest {
  const { body, contentType, headers, method, path, query } = made;
  return {
    payload: { body, contentType },
    way: { method, path, query },
    headers: { ...lowerCased(posted), ...headers },
  };
}

/** The parts that a destination's requests are made with. */
export type Sender = Readonly<{ signer: Signer; credentials: Credentials; post: PostRequest }>;

type ExchangeOptions = Readonly<{ sender: Sender }> & Pick<Order, "timeoutMs" | "answered">;

/** Makes the attempt. The timeout starts here, so call it only when a connection is free. */
export async function send(
  services: Services,
  delivery: LoadedDelivery,
  { sender, ...how }: ExchangeOptions,
): Promise<Attempt> {
  const { event, destination, row } = delivery;
  const { payload, way, headers } = requestOf(delivery);
  const { type } = event;
  const message = { id: eventId(event.id), type, headers, ...payload, attempt: (row?.attempts ?? 0) + 1 };
  const order = {
    post: sender.post,
    type,
    headers: (at: number) => requestHeadersOf(services, message, sender, at),
    credentials: sender.credentials,
    secretsIn: (sent: Readonly<Record<string, string>>) => sentSecrets(sent, headers, destination),
    body: payload.body,
    way,
    archive: (arrived: ArchivableResult) =>
      services.archiveExchange?.(delivery, payload.contentType, arrived) ?? false,
    ...how,
  };
  return { delivery, ...(await call(services, order)) };
}

/**
 * Breakwater's headers replace the destination's, whose names may be spelled in any case, and these replace the
 * event's. A plain object: the request makes its `Headers` from it once.
 */
export async function requestHeadersOf(
  { config }: Pick<Services, "config">,
  { attempt, contentType, headers: posted = {}, ...event }: Message,
  { signer, credentials }: Omit<Sender, "post">,
  at: number,
): Promise<Record<string, string>> {
  return {
    ...lowerCased(posted),
    ...lowerCased(credentials.headers()),
    "content-type": contentType,
    "user-agent": USER_AGENT,
    "webhook-attempt": String(attempt),
    [MARKER]: await markerOf(config),
    ...(await signer(event, at)),
  };
}

function lowerCased(headers: Headers): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
