/**
 * One attempt: its request and answer, whole if the archive has them (core/archive.ts); otherwise the part in the
 * delivery's log, and the request as it would be made now.
 */
import type { ArchivedExchange, Encoded } from "../../core/archive.ts";
import { conflict, missing, ok, unavailable } from "../../core/result.ts";
import { transformedUrl } from "../../core/transform/url.ts";
import { type EventRequest, readable, textOf } from "../../delivery/http.ts";
import { payloadOf } from "../../delivery/payload.ts";
import { shownHeaders } from "../../delivery/shown-request.ts";
import { requestFor } from "../../delivery/transform.ts";
import { eventId } from "../../ids.ts";
import { faultOf, orLogged } from "../../log.ts";
import type { Services } from "../../services.ts";
import { archiveOf, emptyExchange, mayBeArchived, readExchange } from "../../store/archive.ts";
import { type AttemptEntry, entriesIn, isOpen } from "../../store/delivery.ts";
import type { FoundDelivery } from "../../store/delivery-list.ts";
import type { Destination } from "../../store/destination.ts";
import { readEvent, type StoredEvent } from "../../store/planned-deliveries.ts";
import { forgetExcerpt } from "../../store/requeue.ts";
import { isoTime } from "../../time.ts";
import { service } from "../service.ts";
import type { AttemptJson } from "./schema.ts";
import { deliveryOf, seesContent } from "./view.ts";

/** Which attempts may have more in the archive than their deliveries' logs show, by their log entries. */
export function attemptsAreKept({ bodies, config }: Pick<Services, "bodies" | "config">) {
  return (entry: Readonly<{ archived?: true | undefined }>) =>
    bodies !== undefined && mayBeArchived(config, entry);
}

/** The id of its delivery, and when it started, as the delivery's log has it. */
type AttemptName = Readonly<{ delivery: string; at: string }>;

const ATTEMPT = /^atmpt_([0-9a-z]{13}_[0-9a-z]{20})_([1-9a-z][0-9a-z]*)$/;

/** @param delivery its id; @param at when the attempt started, epoch ms */
export function attemptId(delivery: string, at: number): string {
  return `atmpt_${delivery.slice("dlv_".length)}_${at.toString(36)}`;
}

/** The delivery of an attempt's id, and when the attempt started, epoch ms; undefined when the id is not an attempt's. */
export function attemptIn(id: string): Readonly<{ delivery: string; at: number }> | undefined {
  const [, delivery, at] = ATTEMPT.exec(id) ?? [];
  return delivery === undefined || at === undefined
    ? undefined
    : { delivery: `dlv_${delivery}`, at: Number.parseInt(at, 36) };
}

/** Without request and answer if the principal may not see what was sent. */
export const getAttempt = service(
  { scope: "read", action: "read" },
  async (call, { delivery, at }: AttemptName) => {
    const { services, principal } = call;
    const none = missing("attempt", `${delivery} at ${at}`);
    const found = await deliveryOf(call, delivery);
    if (found?.kind !== "stored") return none;
    const { log, attempts } = found.row;
    const place = log.findIndex((one) => isoTime(one.at) === at);
    const entry = log[place];
    const read = entry && (await readEvent(services, found.eventId, principal.tenant));
    if (!entry || !read) return none;
    const { event } = read;
    const { state, exchange } = await archivedOf(services, event, found.destinationId, entry);
    const number = attempts - log.length + 1 + place;
    const { status, error, latencyMs, note } = entry;
    const shown = {
      delivery_id: delivery,
      at,
      ...(status !== undefined && { status }),
      ...(error !== undefined && { error: error as AttemptJson["error"] }),
      latency_ms: latencyMs,
      ...(note !== undefined && { note }),
      archive: state,
    };
    if (!seesContent(principal)) return ok<AttemptJson>({ ...shown, request: null, response: null });
    return ok<AttemptJson>({
      ...shown,
      request: exchange
        ? {
            ...exchange.request,
            ...(await bodyThen(services, event, exchange.request.form, found.destination)),
          }
        : await requestNow(services, event, found.destination, {
            at: entry.at,
            number: number > 0 ? number : undefined,
          }),
      response: exchange ? wholeOf(exchange) : beginningOf(entry),
    });
  },
);

const UNDER_WAY = conflict("The delivery is under way: its log can be changed once it has ended");
const NOT_REMOVED = unavailable(
  "The attempt's exchange in R2 cannot be removed at the moment; nothing was changed",
);

/** Removes the answer of an attempt from its delivery's log, and the exchange from the archive. */
export const removeAttemptContent = service({ scope: "admin" }, async (call, id: string) => {
  const { services, changed } = call;
  const named = attemptIn(id);
  const found = named && (await deliveryOf(call, named.delivery));
  if (found?.kind !== "stored") return missing("attempt", id);
  const entry = entriesIn(found.row.log).find(({ at }) => at === named?.at);
  if (entry === undefined) return missing("attempt", id);
  if (isOpen(found.row)) return UNDER_WAY;
  if (!(await isEmptied(services, found, entry))) return NOT_REMOVED;
  await forgetExcerpt(services, found, entry.at);
  changed("attempt.content_removed", {
    id,
    tenant: call.principal.tenant ?? found.destination?.tenant ?? null,
  });
  return ok(undefined);
});

/** Whether the archive does not have the attempt any more, and never will. */
async function isEmptied(
  services: Services,
  { eventId: event, destinationId: destination }: FoundDelivery,
  entry: AttemptEntry,
): Promise<boolean> {
  const archive = archiveOf(services);
  if (archive === undefined || !mayBeArchived(services.config, entry)) return true;
  const emptied = await orLogged(services, { what: "exchanges_not_removed", exchanges: 1 }, async () => {
    await emptyExchange(archive, { event, destination, at: entry.at });
    return true;
  });
  return emptied ?? false;
}

type ArchivedAttempt = Readonly<{
  state: AttemptJson["archive"];
  exchange?: ArchivedExchange | undefined;
}>;

async function archivedOf(
  services: Services,
  event: StoredEvent,
  destination: string,
  entry: AttemptEntry,
): Promise<ArchivedAttempt> {
  const archive = archiveOf(services);
  const isExpected = entry.archived === true;
  // An erased exchange is not shown, even while its object is still there.
  if (event.isErased || !mayBeArchived(services.config, entry)) return { state: "none" };
  if (archive === undefined) return { state: isExpected ? "unavailable" : "none" };
  try {
    const exchange = await readExchange(
      archive,
      { event: event.id, destination, at: entry.at },
      event.tenant,
    );
    return exchange ? { state: "kept", exchange } : { state: isExpected ? "missing" : "none" };
  } catch (error) {
    services.log({ what: "exchange_unavailable", error: faultOf(error) });
    return { state: "unavailable" };
  }
}

/**
 * The body that a destination got for the event. A transformation's is computed again, by the version that applies to
 * it.
 */
async function bodyThen(
  services: Services,
  event: StoredEvent,
  { transformed, ...form }: ArchivedExchange["request"]["form"],
  destination: Destination | null,
) {
  const { body } = event;
  const isMade = transformed || event.version !== undefined;
  if (body === null || (isMade && destination === null)) return NO_BODY;
  const { subscriber = null, eventCursor = null } = destination ?? {};
  if (!isMade || destination === null)
    return encodedOf(payloadOf({ ...event, body }, { ...form, subscriber, eventCursor }).body);
  const plain = !transformed && { transform: null };
  const request = await requestFor(services, { ...event, body }, { ...destination, ...form, ...plain });
  return "kind" in request ? NO_BODY : encodedOf(request.payload.body);
}

const NO_BODY = { encoding: "utf-8", body: null } as const;

function encodedOf(bytes: Uint8Array): Encoded {
  const text = readable(textOf(bytes));
  return text === undefined
    ? { encoding: "base64", body: bytes.toBase64() }
    : { encoding: "utf-8", body: text };
}

async function requestNow(
  services: Services,
  event: StoredEvent,
  destination: Destination | null,
  attempt: NumberedAttempt,
): Promise<AttemptJson["request"]> {
  if (destination === null || destination.deletedAt !== null) return null;
  const sent = await sentNow(services, event, destination);
  if (sent === undefined) return { url: destination.url, headers: {}, ...NO_BODY };
  const body = event.body === null ? NO_BODY : encodedOf(sent.payload.body);
  return { ...headOf(event, destination, sent, attempt), ...body };
}

type NumberedAttempt = Readonly<{
  /** When it started, epoch ms. */
  at: number;
  /** From 1; undefined where it is not known any more. */
  number: number | undefined;
}>;

/** The request for the event now; undefined if the destination's transformation makes none. */
export async function sentNow(services: Services, event: StoredEvent, destination: Destination) {
  const { body } = event;
  // Without its content no transformation can be applied.
  const request = body
    ? await requestFor(services, { ...event, body }, destination)
    : {
        payload: { body: new Uint8Array(), contentType: event.contentType ?? "application/json" },
        headers: event.headers,
      };
  return "kind" in request ? undefined : request;
}

/** The target of such a request, and its headers, with those masked that may be secret. */
export function headOf(
  { id, type }: StoredEvent,
  destination: Destination,
  { payload, way, headers }: EventRequest,
  { at, number }: NumberedAttempt,
) {
  const shown = { id: eventId(id), type, headers, contentType: payload.contentType, attempt: number, at };
  const url = transformedUrl(destination.url, way);
  return { url, headers: shownHeaders(shown, destination) };
}

function wholeOf({ response }: ArchivedExchange): AttemptJson["response"] {
  if (response === undefined) return null;
  const { headers, encoding, body, cut } = response;
  return { headers, encoding, body, is_whole: !cut };
}

function beginningOf({ excerpt }: AttemptEntry): AttemptJson["response"] {
  if (excerpt === undefined) return null;
  return { headers: null, encoding: "utf-8", body: excerpt, is_whole: false };
}
