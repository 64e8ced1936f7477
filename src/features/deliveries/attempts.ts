/**
 * One attempt as it was: the request and the answer, whole where the archive has them (core/archive.ts), or else what the
 * delivery's log has, and the request as it would be made now.
 */

import { createRoute, z } from "@hono/zod-openapi";
import { type ArchivedExchange, type Encoded, encodings, MOST_BODY_BYTES } from "../../core/archive.ts";
import { attemptErrors } from "../../core/reasons.ts";
import { payloadOf, readable, textOf } from "../../delivery/http.ts";
import { shownHeaders } from "../../delivery/shown-request.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { idParam, jsonAnswer } from "../../http/parameters.ts";
import { notFound, problemResponses } from "../../http/problems.ts";
import { deliveryKey, eventId } from "../../ids.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import { archiveOf, mayBeArchived, readExchange } from "../../store/archive.ts";
import type { AttemptEntry } from "../../store/delivery.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { Destination } from "../../store/destinations.ts";
import { findDelivery, readEvent, type StoredEvent } from "../../store/planned-deliveries.ts";
import { isoTime } from "../../time.ts";

export function registerAttempts(api: Api): void {
  api.openapi(getAttempt, async (c) => {
    const { id, at } = c.req.valid("param");
    const shown = await showAttempt(c.get("services"), { delivery: id, at }, c.get("principal").tenant);
    return shown ? c.json(shown, 200) : notFound("attempt", `${id} at ${at}`);
  });
}

const archiveStates = ["kept", "none", "missing", "unavailable"] as const;

const encoded = {
  encoding: z.enum(encodings).openapi({ description: "How `body` is written: as text, or in base64." }),
  body: z.string(),
};

const headers = z.record(z.string(), z.string());

export const attemptSchema = z
  .object({
    delivery_id: z.string(),
    at: z.iso.datetime().openapi({ description: "When the attempt started: its name within the delivery." }),
    status: z.int().optional(),
    error: z.enum(attemptErrors).optional(),
    latency_ms: z.number(),
    note: z.string().optional(),
    archive: z.enum(archiveStates).openapi({
      description:
        "`kept`: the request and the answer are as they were. Otherwise the answer is the beginning that the delivery's " +
        "log has: `none`, because no more was to be kept; `missing`, because it could not be kept, or is not yet; " +
        "`unavailable`, because it cannot be read at the moment.",
    }),
    request: z
      .object({
        url: z.string(),
        headers: headers.openapi({ description: "Secrets and signatures are masked." }),
        ...encoded,
        body: z.string().nullable().openapi({
          description: "Made from the event; null when its content has been erased or is damaged.",
        }),
      })
      .nullable()
      .openapi({
        description:
          "With `archive` other than `kept`, as it would be made now; null when the destination is gone.",
      }),
    response: z
      .object({
        headers: headers.nullable().openapi({
          description: "Null unless the answer was kept. Cookies and what repeats a secret are masked.",
        }),
        ...encoded,
        is_whole: z.boolean().openapi({
          description: `Whether that is all of the body: at most ${MOST_BODY_BYTES} bytes are kept.`,
        }),
      })
      .nullable()
      .openapi({ description: "Null when there was none, or nothing of it is kept." }),
  })
  .openapi("Attempt");

export type AttemptJson = z.infer<typeof attemptSchema>;

const getAttempt = createRoute({
  method: "get",
  path: "/v1/deliveries/{id}/attempts/{at}",
  summary: "Show an attempt with request and answer",
  tags: ["Deliveries"],
  description:
    "Where the deployment keeps exchanges (R2), those that are marked as `archived` in the delivery's log are shown as they " +
    "were, with up to 64 KB of the answer. Of others the log has the beginning of the answer.",
  middleware: [requires("read")],
  request: {
    params: idParam.extend({
      at: z.string().openapi({ description: "The `at` of the attempt, as the delivery's log has it." }),
    }),
  },
  responses: { 200: jsonAnswer(attemptSchema, "The attempt."), ...problemResponses(401, 403, 404, 429) },
});

/** Tells of which attempts more may be kept than their deliveries' logs have, by their entries there. */
export function attemptsAreKept({ bodies, config }: Pick<Services, "bodies" | "config">) {
  return (entry: Readonly<{ archived?: true | undefined }>) =>
    bodies !== undefined && mayBeArchived(config, entry);
}

type AttemptName = Readonly<{ delivery: string; at: string }>;

/** The attempt; undefined when there is none that the tenant may see. */
export async function showAttempt(
  services: Services,
  { delivery, at }: AttemptName,
  tenant: string | undefined,
): Promise<AttemptJson | undefined> {
  const key = deliveryKey(delivery);
  const found = key && (await findDelivery(services, key, tenant, overBy(services)));
  if (found?.kind !== "stored") return undefined;
  const { log, attempts } = found.row;
  const place = log.findIndex((one) => isoTime(one.at) === at);
  const entry = log[place];
  const read = entry && (await readEvent(services, found.eventId, tenant));
  if (!entry || !read) return undefined;
  const { event } = read;
  const { state, exchange } = await archivedOf(services, event, found.destinationId, entry);
  const number = attempts - log.length + 1 + place;
  const { status, error, latencyMs, note } = entry;
  return {
    delivery_id: delivery,
    at,
    ...(status !== undefined && { status }),
    ...(error !== undefined && { error: error as AttemptJson["error"] }),
    latency_ms: latencyMs,
    ...(note !== undefined && { note }),
    archive: state,
    request: exchange
      ? { ...exchange.request, ...bodyOf(event, exchange.request.form) }
      : requestNow(event, found.destination, entry, number > 0 ? number : undefined),
    response: exchange ? wholeOf(exchange) : beginningOf(entry),
  };
}

type Archived = Readonly<{
  state: AttemptJson["archive"];
  exchange?: ArchivedExchange | undefined;
}>;

async function archivedOf(
  services: Services,
  event: StoredEvent,
  destination: string,
  entry: AttemptEntry,
): Promise<Archived> {
  const archive = archiveOf(services);
  const isExpected = entry.archived === true;
  // What is erased is not shown, even while its object is still there.
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

/** The body that a destination got, or gets, of the event. */
function bodyOf(event: StoredEvent, form: Pick<Destination, "body" | "template">) {
  const { body } = event;
  return body === null
    ? { encoding: "utf-8" as const, body }
    : encodedOf(payloadOf({ ...event, body }, form).body);
}

function encodedOf(bytes: Uint8Array): Encoded {
  const text = readable(textOf(bytes));
  return text === undefined
    ? { encoding: "base64", body: bytes.toBase64() }
    : { encoding: "utf-8", body: text };
}

function requestNow(
  event: StoredEvent,
  destination: Destination | null,
  { at }: AttemptEntry,
  attempt: number | undefined,
): AttemptJson["request"] {
  if (destination === null || destination.deletedAt !== null) return null;
  const { type, headers, body } = event;
  const { contentType } = payloadOf({ ...event, body: body ?? new Uint8Array() }, destination);
  const shown = { id: eventId(event.id), type, headers, contentType, attempt, at };
  return { url: destination.url, headers: shownHeaders(shown, destination), ...bodyOf(event, destination) };
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
