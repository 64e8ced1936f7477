/**
 * What destinations' transformations make of events, before their gates are asked: a gate admits nothing that cannot be sent.
 * Destinations without one cost nothing here, and the interpreter of templates (core/transform/liquid.ts) is loaded with the
 * first event that needs it.
 */
import {
  faultText,
  guardedRequest,
  type Transformed,
  type TransformedRequest,
  type TransformFault,
} from "../core/transform/result.ts";
import type { TransformTemplate } from "../core/transform/template.ts";
import { isFor, resultFor, type TransformVersion, type Versioned } from "../core/transform/versions.ts";
import { eventId } from "../ids.ts";
import type { Services } from "../services.ts";
import type { LoadedDelivery } from "../store/deliveries.ts";
import type { Destination } from "../store/destination.ts";
import { currentTransform, formerTransforms } from "../store/transforms.ts";
import { isoTime } from "../time.ts";
import { bodyOfText, type EventRequest, payloadOf, textOf, transformedRequest } from "./http.ts";
import { countTransformFaults } from "./news.ts";

/** The parts of an event that a transformation reads. */
export type TransformedEvent = Readonly<{
  id: number;
  tenant: string;
  type: string;
  acceptedAt: number;
  body: Uint8Array<ArrayBuffer>;
  contentType?: string | undefined;
}>;

type Transforming = Pick<Destination, "id" | "transform" | "body" | "template">;

/** The deliveries with what is sent in place of their events. Those without a body stay as they are. */
export async function transformed(
  services: Services,
  deliveries: readonly LoadedDelivery[],
): Promise<readonly LoadedDelivery[]> {
  if (deliveries.every(({ destination }) => !destination.transform)) return deliveries;
  const faulty: Faulty[] = [];
  const results: LoadedDelivery[] = [];
  for (const delivery of deliveries) {
    const { event, destination, row } = delivery;
    const isOpen = (row?.endedAt ?? null) === null;
    if (!destination.transform || !event.body || !isOpen) {
      results.push(delivery);
      continue;
    }
    const { version, result } = await transform(services, { ...event, body: event.body }, destination);
    results.push(result ? { ...delivery, transformed: result } : delivery);
    if (result?.kind === "fault") faulty.push({ delivery, version, fault: result.fault });
  }
  for (const theirs of Map.groupBy(faulty, ({ delivery }) => delivery.destination.id).values())
    reportFaulty(services, theirs);
  return results;
}

type Faulty = Readonly<{ delivery: LoadedDelivery; version: number; fault: TransformFault }>;

/** One log line says what is wrong. Deliveries that waited for the same reason before are counted already. */
function reportFaulty(services: Services, faulty: readonly Faulty[]): void {
  const isNew = ({ delivery: { row } }: Faulty) => row?.reason !== "transform_failed";
  const added = faulty.filter(isNew);
  const [first] = added;
  if (!first) return;
  const { destination, event } = first.delivery;
  const about = { destination: destination.id, event: eventId(event.id), version: first.version };
  services.log({
    what: "transform_failed",
    ...about,
    fault: faultText(first.fault),
    deliveries: added.length,
  });
  services.background(countTransformFaults(services, destination, first.version, added.length));
}

/** Applies the destination's transformation to the event, in the version that counts for it; undefined: it is sent as it is. */
export async function transform(
  services: Services,
  event: TransformedEvent,
  destination: Transforming,
): Promise<Versioned> {
  const versions = await versionsFor(services, event, destination);
  if (versions === undefined) return { version: 0, result: UNREADABLE };
  if (versions.every(({ template }) => template === null)) return resultFor(versions, event, () => undefined);
  const apply = await applier(services, event, destination);
  return resultFor(versions, event, ({ template }) => (template === null ? undefined : apply(template)));
}

/** An edit by hand that leaves no transformation must not send events as they are. */
const UNREADABLE: Transformed = {
  kind: "fault",
  fault: { field: "transform", fault: "what is stored cannot be read; save it again" },
};

/** The versions from which the event's is chosen; undefined where they cannot be read. */
async function versionsFor(
  { db, memory }: Services,
  event: TransformedEvent,
  destination: Transforming,
): Promise<readonly TransformVersion[] | undefined> {
  const current = currentTransform(destination);
  if (current === undefined) return undefined;
  if (current === null) return [];
  if (isFor(current, event)) return [current];
  const known = memory.formerTransforms.get(destination.id);
  if (known?.before === current.version) return [...known.versions, current];
  const versions = await formerTransforms(db, destination.id);
  memory.formerTransforms.set(destination.id, { before: current.version, versions });
  return [...versions, current];
}

const NO_TEXT: Transformed = {
  kind: "fault",
  fault: { field: "data", fault: "is content that is no text in UTF-8" },
};

/** The request that an attempt would send of the event, or why there is none. */
export async function requestFor(
  services: Services,
  {
    headers,
    ...event
  }: TransformedEvent & Readonly<{ headers?: Readonly<Record<string, string>> | undefined }>,
  destination: Transforming,
): Promise<EventRequest | Exclude<Transformed, TransformedRequest>> {
  const result = destination.transform ? (await transform(services, event, destination)).result : undefined;
  if (result === undefined) return { payload: payloadOf(event, destination), headers };
  return result.kind === "request" ? transformedRequest(result, headers) : result;
}

/** Applies templates to the event. */
export async function applier(
  { memory }: Pick<Services, "memory">,
  event: TransformedEvent,
  destination: Pick<Destination, "body" | "template">,
): Promise<(template: TransformTemplate) => Transformed> {
  const { compile, fillIn } = await import("../core/transform/liquid.ts");
  const { id, type, tenant, acceptedAt, body, contentType } = event;
  const text = textOf(body);
  if (text === undefined) return () => NO_TEXT;
  const content =
    contentType === undefined ? JSON.parse(text) : { timestamp: isoTime(acceptedAt), data: text };
  const facts = { ...content, id: eventId(id), type, tenant };
  return (template) => {
    const name = JSON.stringify(template);
    const compiled = memory.templates.get(name) ?? compile(template);
    memory.templates.set(name, compiled);
    const filled = "fill" in compiled ? fillIn(compiled, facts) : compiled;
    if (!("made" in filled)) return { kind: "fault", fault: filled };
    return guardedRequest(filled.made, () => payloadOf(event, destination), bodyOfText);
  };
}
