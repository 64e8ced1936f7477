/** Transformations before and after they are saved: previews on events, their versions, and restoring one. */
import { z } from "@hono/zod-openapi";
import { envelopeOf } from "../../core/content.ts";
import { checked } from "../../core/field-errors.ts";
import { allows } from "../../core/portal-access.ts";
import { type FieldError, invalidField, invalidFields, missing, ok } from "../../core/result.ts";
import { faultText, type Transformed } from "../../core/transform/result.ts";
import { transformedUrl } from "../../core/transform/url.ts";
import type { TransformVersion } from "../../core/transform/versions.ts";
import { bodyOfText, readable, textOf } from "../../delivery/http.ts";
import { payloadOf } from "../../delivery/payload.ts";
import { convertedFor, type TransformedEvent, tryTransform } from "../../delivery/transform.ts";
import { eventId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { Destination } from "../../store/destination.ts";
import { listEvents } from "../../store/event-list.ts";
import { criteriaOf, refusalsOf } from "../../store/event-refusals.ts";
import { findEventType } from "../../store/event-types.ts";
import { readEvent } from "../../store/planned-deliveries.ts";
import { currentTransform, formerTransforms } from "../../store/transforms.ts";
import { isoTime } from "../../time.ts";
import { actorSchema } from "../audit/schema.ts";
import { actorOf } from "../audit/trail.ts";
import { eventVersionOf, exampleIn } from "../event-types/service.ts";
import { documented, eventType, strict, time } from "../parameters.ts";
import { shownSource, sourceIn, transformInput, transformShown } from "./fields.ts";
import { destinationService } from "./one.ts";
import { updateDestination, withoutExample } from "./service.ts";
import { transformErrors } from "./validate.ts";

/** Events that a template is tried on at most; one more where a type's example is wanted. */
export const MOST_TRIED = 5;
/** Events of the tenant among which those are looked for. */
const LOOKED_AT = 50;

const part = z.object({
  method: z.string(),
  url: z.string(),
  content_type: z.string(),
  headers: z.record(z.string(), z.string()).describe("The headers that the transformation sets."),
  body: z.string().nullable().describe("Null if it is not text."),
});

const triedEvent = z.object({
  event_id: z.string().nullable().describe("Null for the example of a type."),
  type: z.string(),
  result: z.enum(["sent", "cancelled", "failed"]),
  fault: z.string().nullable().describe("Why it fails, with the part, line and column."),
  before: part.describe("Without a transformation."),
  after: part.nullable(),
  changed: z
    .array(z.enum(["method", "url", "content_type", "headers", "body"]))
    .describe("Which parts of the request differ."),
});

export const transformPreviewSchema = documented("TransformPreview", { events: z.array(triedEvent) });

export type TransformPreview = z.infer<typeof transformPreviewSchema>;

export const transformDraft = strict({
  template: transformInput.shape.template,
  code: transformInput.shape.code,
  type: eventType.optional().describe("A type of the catalogue whose example is tried too."),
}).openapi("TransformDraft");

type Draft = Readonly<{ id: string }> & z.infer<typeof transformDraft>;

/** Applies a template or code, or the saved one, to the destination's last events. Nothing is changed or sent. */
export const previewTransform = destinationService(
  { scope: "read", action: "preview_endpoint" },
  async ({ services, principal }, destination, { template, code, type }: Draft) => {
    const { visit } = principal;
    const refused =
      code !== undefined && (visit ? !allows(visit, "write_code") : !principal.scopes.includes("admin"));
    if (refused)
      return invalidField("code", "runs in a preview", "it to be left out: this caller may not write code");
    const draft = template === undefined && code === undefined ? undefined : { template, code };
    const errors = draft ? await draftErrors(services, draft, destination.tenant) : [];
    if (errors.length > 0) return invalidFields(errors.map(withoutTransform));
    const example = type === undefined ? undefined : await exampleOf(services, destination, type);
    if (example === null) return withoutExample(type);
    const events = [...(example ? [example] : []), ...(await lastTaken(services, destination))];
    const version = { version: 0, after: -1, at: 0, by: actorOf(principal) };
    const got = await Promise.all(events.map((event) => convertedFor(services, event, destination)));
    const sound = got.flatMap((one) => (one.kind === "event" ? [one.event] : []));
    const drafted = draft && { ...version, ...sourceIn(draft) };
    const results = await tryTransform(services, sound, destination, drafted);
    return ok<TransformPreview>({
      events: events.map((posted, i) => {
        const one = got[i];
        if (one?.kind !== "event") return shownEvent(destination, posted, one);
        return shownEvent(destination, one.event, results[sound.indexOf(one.event)]);
      }),
    });
  },
);

async function draftErrors(services: Services, draft: Pick<Draft, "template" | "code">, tenant: string) {
  const read = checked(transformInput, draft);
  return "data" in read ? transformErrors(services, { transform: read.data }, tenant) : [...read];
}

function withoutTransform(error: FieldError): FieldError {
  return { ...error, field: error.field.replace(/^transform\./, "") };
}

/** Null where the type has no example. */
async function exampleOf(
  { db, now }: Services,
  { tenant }: Destination,
  type: string,
): Promise<TransformedEvent | null> {
  const row = await findEventType(db, type);
  const data = row && exampleIn(row);
  if (data === undefined) return null;
  const body = bodyOfText(envelopeOf(type, isoTime(now()), data));
  return { id: 0, tenant, type, acceptedAt: now(), body, version: row && eventVersionOf(row) };
}

/** The last events of the tenant that the destination takes, the newest first. */
async function lastTaken(services: Services, destination: Destination): Promise<TransformedEvent[]> {
  const { id, tenant } = destination;
  const over = overBy(services);
  const { found } = await listEvents(services, { tenant, destination: id, over, limit: LOOKED_AT });
  const refused = await refusalsOf(services, criteriaOf(destination), found);
  const taken = found.filter((event) => !refused.get(event.id) && !event.isErased).slice(0, MOST_TRIED);
  const read = await Promise.all(taken.map((event) => readEvent(services, event.id, tenant)));
  return read.flatMap((one) => {
    const body = one?.event.body;
    return one && body ? [{ ...one.event, body }] : [];
  });
}

function shownEvent(
  destination: Destination,
  event: TransformedEvent,
  result: Transformed | undefined,
): TransformPreview["events"][number] {
  const plain = payloadOf(event, destination);
  const before = { method: "POST", url: destination.url, headers: {}, ...shownBody(plain) };
  const made = result?.kind === "request" ? result : undefined;
  const after = made && {
    method: made.method,
    url: transformedUrl(destination.url, made),
    headers: { ...made.headers },
    ...shownBody(made),
  };
  const sent = result === undefined ? before : (after ?? null);
  const names = ["method", "url", "content_type", "headers", "body"] as const;
  const isOther = (name: (typeof names)[number]) =>
    sent !== null && JSON.stringify(sent[name]) !== JSON.stringify(before[name]);
  return {
    event_id: event.id === 0 ? null : eventId(event.id),
    type: event.type,
    result: result?.kind === "fault" ? "failed" : result?.kind === "cancelled" ? "cancelled" : "sent",
    fault: result?.kind === "fault" ? faultText(result.fault) : null,
    before,
    after: sent,
    changed: names.filter(isOther),
  };
}

function shownBody({ body, contentType }: Readonly<{ body: Uint8Array; contentType: string }>) {
  return { content_type: contentType, body: readable(textOf(body)) ?? null };
}

const versionSchema = z.object({
  version: z.int(),
  created_at: time,
  author: actorSchema.describe("Who saved it, as the audit trail names them."),
  template: transformShown.shape.template
    .unwrap()
    .nullable()
    .describe("Null if there is code, or if events are sent as they are."),
  code: transformShown.shape.code
    .unwrap()
    .nullable()
    .describe("Null if there is a template, or if events are sent as they are."),
});

export const transformVersions = documented("TransformVersions", {
  data: z.array(versionSchema).describe("The newest first; at most 101."),
});

export type TransformVersions = z.infer<typeof transformVersions>;

/** The versions of the destination's transformation, the newest first. */
export const getTransformVersions = destinationService(
  { scope: "read", action: "read" },
  async ({ services }, destination) =>
    ok<TransformVersions>({ data: (await versionsOf(services, destination)).map(versionView) }),
);

async function versionsOf({ db }: Services, destination: Destination): Promise<TransformVersion[]> {
  const current = currentTransform(destination);
  if (current === null) return [];
  const former = await formerTransforms(db, destination.id);
  return [...former, ...(current ? [current] : [])].toReversed();
}

function versionView({ version, at, by, ...source }: TransformVersion): TransformVersions["data"][number] {
  const author = { ...by, person: by.person ?? null };
  const { template = null, code = null } = source;
  return { version, created_at: isoTime(at), author, template, code };
}

type Restoring = Readonly<{ id: string; version: number; requestUrl: string }>;

/** Makes an earlier version the newest, under a new number. */
export const restoreTransform = destinationService(
  { scope: "admin", action: "change_endpoint", role: "configure" },
  async ({ services, principal }, destination, { id, version, requestUrl }: Restoring) => {
    const versions = await versionsOf(services, destination);
    const wanted = versions.find((one) => one.version === version);
    if (wanted === undefined) return missing("version", String(version));
    const change = { transform: shownSource(wanted) };
    return updateDestination({ services, principal }, { id, change, requestUrl });
  },
);
