/**
 * MCP Events: event types of the catalogue as clients list them, and subscriptions to them. A subscription is a destination of its
 * tenant that expires, made by the client's principal through the services of destinations, so that rights, limits, the guard of
 * URLs and the audit trail are those of any other. Its client is known again by the subscription's id, which is its `uid`.
 */

import { canonicalJson } from "../../core/canonical-json.ts";
import {
  cursorIn,
  cursorText,
  endedBefore,
  inputSchemaOf,
  lifetimeMs,
  payloadSchemaOf,
  subscriptionRetry,
} from "../../core/mcp-events.ts";
import { notYourTenant, type Principal, tenantFor } from "../../core/principal.ts";
import {
  conflict,
  errorAt,
  errorIf,
  type FieldError,
  invalidFields,
  missing,
  ok,
  type RefusalKind,
  type Refused,
  type Result,
  withFieldNames,
} from "../../core/result.ts";
import { type ChallengeFault, challengeFault, subscriptionHeader } from "../../delivery/challenge.ts";
import { subscriptionIdFor } from "../../ids.ts";
import { overChallengeLimit } from "../../rate-limits.ts";
import { schemeOf, secretBytes } from "../../secrets/signing.ts";
import type { Services } from "../../services.ts";
import { keptOfTenant } from "../../store/content-retention.ts";
import { type Destination, isDestinationOver, isSubscription } from "../../store/destination.ts";
import { changeDestination, destinationByUid } from "../../store/destinations.ts";
import { type EventType, findEventType, listEventTypes } from "../../store/event-types.ts";
import { isoTime } from "../../time.ts";
import { rotateSecret } from "../destinations/secrets.ts";
import { createDestination, removeDestination, resumeDestination } from "../destinations/service.ts";
import { readCreation } from "../destinations/validate.ts";
import { storedJson } from "../event-types/service.ts";
import { startReplay } from "../replays/service.ts";
import { type Call, type Caller, service } from "../service.ts";
import type { SubscribeParams, UnsubscribeParams } from "./schema.ts";

/** Event types of a page: each may have a schema of 16 KB. */
const LISTED = 20;

/** An event type as `events/list` shows it. */
function listed({ name, description, schema: text }: EventType) {
  const schema = storedJson(text);
  return {
    name,
    ...(description !== null && { description }),
    delivery: ["webhook", "poll"],
    inputSchema: inputSchemaOf(schema),
    payloadSchema: payloadSchemaOf(schema),
  };
}

/** A page of the event types that can be subscribed to, by name. */
export const listEventKinds = service(
  { scope: "read", action: "read" },
  async ({ services }, after: string | undefined) => {
    const page = { archived: false, after, limit: LISTED + 1 };
    const found = await listEventTypes(services.db, page);
    const shown = found.slice(0, LISTED);
    const last = found.length > LISTED ? shown.at(-1) : undefined;
    return ok({ events: shown.map(listed), ...(last && { nextCursor: last.name }) });
  },
);

type Subscribed = Readonly<{
  kind: "subscribed";
  id: string;
  refreshBefore: string;
  cursor: string;
  /** Whether events after the client's cursor are left out. */
  truncated: boolean;
}>;

/** The receiver has not consented. */
type Unconfirmed = Readonly<{ kind: "unconfirmed"; reason: ChallengeFault }>;

/** @param requestUrl of the client's request: its host can be no receiver */
type Subscribing = Readonly<{ params: SubscribeParams; requestUrl: string }>;

/**
 * Subscribes, or renews the subscription of the same client, URL, event and arguments. A receiver without known consent
 * is challenged first, and gets nothing else until it has consented.
 */
export const subscribe = service(
  { scope: "admin", action: "create_endpoint", role: "configure" },
  async (call: Call, { params, requestUrl }: Subscribing): Promise<Result<Subscribed | Unconfirmed>> => {
    const { services, principal } = call;
    const tenant = tenantFor(principal, undefined);
    if (tenant === undefined) return notYourTenant(principal);
    const { cursor: given } = params;
    const cursor = typeof given === "string" ? cursorIn(given) : undefined;
    const errors = [
      ...secretErrors(params),
      ...(typeof given === "string" && !cursor ? unknownCursor(given) : []),
    ];
    if (errors.length > 0) return invalidFields(errors);
    const type = await findEventType(services.db, params.name);
    if (type === undefined || type.archivedAt !== null) return missing("event", params.name.slice(0, 100));
    const id = await idOf(principal, tenant, params);
    const found = await destinationByUid(services.db, tenant, id);
    if (found && !isSubscription(found))
      return conflict(`${id} is the uid of a destination that is not a subscription`);
    const { now } = services;
    if (found && !isDestinationOver(found, now())) return renewed(call, found, params);
    if (found) {
      const removed = await removeDestination(call, found.id);
      if (removed.kind !== "ok" && removed.kind !== "not_found") return removed;
    }
    return made(call, { id, tenant, params, requestUrl, from: cursor?.at });
  },
);

/** Ends the subscription. A missing one is reported to the adapter, which decides. */
export const unsubscribe = service(
  { scope: "admin", action: "delete_endpoint", role: "configure" },
  async (call: Call, params: UnsubscribeParams) => {
    const { services, principal } = call;
    const tenant = tenantFor(principal, undefined);
    if (tenant === undefined) return notYourTenant(principal);
    const id = await idOf(principal, tenant, params);
    const found = await destinationByUid(services.db, tenant, id);
    if (!found || !isSubscription(found)) return missing("subscription", id);
    return removeDestination(call, found.id);
  },
);

/** The subscriber: a visit of the portal, an API key, or the operator's own key. */
function subscriberOf({ session, key }: Principal): string {
  return session?.id ?? key ?? "admin";
}

function idOf(
  principal: Principal,
  tenant: string,
  params: Omit<UnsubscribeParams, "delivery"> & Readonly<{ delivery: Readonly<{ url: string }> }>,
) {
  const { name, arguments: conditions, delivery } = params;
  return subscriptionIdFor([tenant, subscriberOf(principal), delivery.url, name, canonicalJson(conditions)]);
}

type New = Readonly<{
  id: string;
  tenant: string;
  params: SubscribeParams;
  requestUrl: string;
  /** The client has events that were accepted before, epoch ms; undefined: it begins now. */
  from: number | undefined;
}>;

async function made(
  call: Call,
  { id, tenant, params, requestUrl, from }: New,
): Promise<Result<Subscribed | Unconfirmed>> {
  const { services, principal } = call;
  const { name, arguments: conditions, delivery } = params;
  const filter = Object.keys(conditions).length > 0 ? { filter: conditions } : {};
  const given = { tenant, url: delivery.url, event_types: [name], ...filter };
  const read = readCreation(services, given, requestUrl);
  if (read.kind !== "ok") return withFieldNames(read, asParams);
  const now = services.now();
  const since = await startOf(services, tenant, from, params, now);
  const expiresAt = expiryOf(principal, params, now);
  let fault: ChallengeFault | undefined;
  let over: Refused<"too_many"> | undefined;
  const created = await createDestination(call, {
    destination: read.value,
    requestUrl,
    subscription: {
      input: {
        secret: delivery.secret,
        uid: id,
        headers: { ...subscriptionHeader(id) },
        retry: { ...subscriptionRetry, schedule: [...subscriptionRetry.schedule] },
      },
      columns: { expiresAt, subscriber: subscriberOf(principal), eventCursor: cursorText({ at: since.at }) },
      confirm: async (row) => {
        over = await overChallengeLimit(services, tenant, new URL(delivery.url).host);
        if (!over) fault = await challengeFault(services, { ...row, url: delivery.url, subscription: id });
        return over || fault ? conflict("The receiver has not consented") : undefined;
      },
    },
  });
  if (over) return over;
  if (fault) return ok<Unconfirmed>({ kind: "unconfirmed", reason: fault });
  if (created.kind === "conflict") return renewedAfterAll(call, { id, tenant, params }, created);
  if (created.kind !== "ok") return withFieldNames(created, asParams);
  const isComplete = await replayed(call, created.value.row, since.at, now);
  return ok<Subscribed>({
    kind: "subscribed",
    id,
    refreshBefore: isoTime(expiresAt),
    cursor: cursorText({ at: isComplete ? since.at : now }),
    truncated: since.isLater || !isComplete,
  });
}

/** Another request has subscribed to the same meanwhile. */
async function renewedAfterAll<K extends RefusalKind>(
  call: Call,
  { id, tenant, params }: Pick<New, "id" | "tenant" | "params">,
  refused: Refused<K>,
) {
  const row = await destinationByUid(call.services.db, tenant, id);
  return row && isSubscription(row) ? renewed(call, row, params) : refused;
}

/** From when on events are sent: what is kept, and what the client still wants, may begin later than its cursor. */
async function startOf(
  { db, config }: Services,
  tenant: string,
  from: number | undefined,
  { maxAgeMs }: SubscribeParams,
  now: number,
) {
  if (from === undefined) return { at: now, isLater: false };
  const { ms } = await keptOfTenant(db, tenant, config.retentionMs);
  const at = Math.min(now, Math.max(from, now - Math.min(maxAgeMs ?? ms, ms)));
  return { at, isLater: at > from };
}

/** Whether events that were accepted between are sent too. */
async function replayed(caller: Caller, row: Destination, since: number, now: number): Promise<boolean> {
  if (since >= now) return true;
  const range = { since, until: now + 1, include: "missing", matching: true } as const;
  const started = await startReplay(caller, { destination_id: row.id, ...range, rate_per_minute: RATE });
  return started.kind === "ok";
}

const RATE = 600;

/** Not beyond the end of the client's own key or visit. */
function expiryOf(
  { expiresAt = Number.POSITIVE_INFINITY }: Principal,
  { ttlMs }: SubscribeParams,
  now: number,
): number {
  return Math.min(now + lifetimeMs(ttlMs), expiresAt);
}

/** How long a replaced secret still signs: deliveries are under way. */
const OVERLAP_S = 300;

/** A renewal shows that the client is there: an automatic pause of the subscription ends. */
async function renewed(call: Call, row: Destination, params: SubscribeParams): Promise<Result<Subscribed>> {
  const { services, principal, changed } = call;
  const { secret } = params.delivery;
  const isSame = await services.vault.unseal(row.id, row.secret).then(
    (stored) => stored === secret,
    () => false,
  );
  const rotated = isSame ? undefined : await rotateSecret(call, { id: row.id, secret, overlap_s: OVERLAP_S });
  if (rotated && rotated.kind !== "ok") return withFieldNames(rotated, asParams);
  const now = services.now();
  const expiresAt = expiryOf(principal, params, now);
  const at = Math.max(cursorIn(row.eventCursor ?? "")?.at ?? 0, endedBefore(now));
  const eventCursor = cursorText({ at });
  const change = { expiresAt, eventCursor, updatedAt: Math.max(now, row.updatedAt + 1) };
  const after = await changeDestination(services.db, row.id, change, row.tenant);
  if (after === undefined)
    return conflict("The subscription is being changed by other requests at the same time");
  changed("destination.changed", after, {
    expires_at: { from: isoTime(row.expiresAt), to: isoTime(expiresAt) },
  });
  if (row.status === "paused" && row.statusReason !== "manual") await resumeDestination(call, row.id);
  const refreshBefore = isoTime(expiresAt);
  return ok({ kind: "subscribed", id: row.uid ?? "", refreshBefore, cursor: eventCursor, truncated: false });
}

function secretErrors({ delivery: { secret } }: SubscribeParams): FieldError[] {
  const isUsable = secretBytes(secret) && schemeOf(secret) === "hmac-sha256";
  const expected = "whsec_ and the base64 of 24 to 64 random bytes";
  return errorIf(!isUsable, "delivery.secret", `is a string of ${secret.length} characters`, expected);
}

/** The error of an invalid cursor. */
export function unknownCursor(given: string): FieldError[] {
  const expected = "a cursor that this server has given, or null to begin now";
  return errorAt("cursor", `is ${JSON.stringify(given.slice(0, 100))}`, expected);
}

/** Errors of a destination's fields in the words of the client's parameters. */
function asParams({ field, ...error }: FieldError): FieldError {
  const names = { url: "delivery.url", secret: "delivery.secret", filter: "arguments", event_types: "name" };
  const [, first = "", rest = ""] = /^([^.[#]*)(.*)$/.exec(field) ?? [];
  return { field: `${names[first as keyof typeof names] ?? first}${rest}`, ...error };
}
