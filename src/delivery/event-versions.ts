/**
 * Events in the versions of their types that destinations get. The bytes depend on the event and on what was saved when it was
 * accepted, so every attempt makes the same. Nothing is read for an event of a type with one version, nor where the destination
 * gets the version that was posted.
 */
import type { EventVersion } from "../core/bundle.ts";
import { envelopeOf } from "../core/content.ts";
import { type Converted, convertedTo, newestAt, versionFor } from "../core/event-versions.ts";
import type { Transformed, TransformedRequest } from "../core/transform/result.ts";
import type { TransformTemplate } from "../core/transform/template.ts";
import { eventId } from "../ids.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination.ts";
import { type ConvertingVersion, versionsOfTypes } from "../store/event-versions.ts";
import { bodyOfText, textOf } from "./http.ts";

type Posted = Readonly<{
  id: number;
  tenant: string;
  type: string;
  acceptedAt: number;
  version?: EventVersion | undefined;
}>;

type WithBody = Posted &
  Readonly<{
    body: Uint8Array<ArrayBuffer>;
    headers?: Readonly<Record<string, string>> | undefined;
  }>;

type Getting = Pick<Destination, "createdAt" | "eventVersions">;

type TypeVersions = ReadonlyMap<string, readonly ConvertingVersion[]>;

export function isConverted(event: Posted, destination: Getting): boolean {
  const { version } = event;
  return version !== undefined && versionFor({ ...event, version }, destination) !== version.version;
}

/** The versions of the types whose events are converted; reads nothing if there are none. */
export async function versionsToConvert(
  { db }: Pick<Services, "db">,
  pairs: readonly Readonly<{ event: Posted; destination: Getting }>[],
): Promise<TypeVersions> {
  const types = pairs.flatMap(({ event, destination }) =>
    isConverted(event, destination) ? [event.type] : [],
  );
  return types.length > 0 ? versionsOfTypes(db, types) : new Map();
}

/** Compiles and applies templates that make data of data. */
type ConversionOf = (
  event: Pick<Posted, "id" | "tenant" | "type">,
  timestamp: string,
) => (template: string, data: unknown) => Converted;

/** The interpreter of templates, loaded with the first event that needs it. Compiled templates stay in memory. */
export async function templateFiller({ memory }: Pick<Services, "memory">) {
  const { compile, fillIn } = await import("../core/transform/liquid.ts");
  return (template: TransformTemplate, facts: Parameters<typeof fillIn>[1]) => {
    const name = JSON.stringify(template);
    const compiled = memory.templates.get(name) ?? compile(template);
    memory.templates.set(name, compiled);
    return "fill" in compiled ? fillIn(compiled, facts) : compiled;
  };
}

export async function conversions(services: Pick<Services, "memory">): Promise<ConversionOf> {
  const fill = await templateFiller(services);
  return ({ id, tenant, type }, timestamp) =>
    (body, data) => {
      const filled = fill({ body }, { id: eventId(id), type, tenant, timestamp, data });
      if (!("made" in filled)) return { kind: "fault", fault: filled };
      const made = filled.made?.body;
      return made === undefined ? { kind: "cancelled" } : { kind: "data", data: JSON.parse(made) };
    };
}

/** The event with its data and headers as the destination gets them; or why that is impossible. */
export async function converted<E extends WithBody>(
  services: Pick<Services, "memory">,
  event: E,
  destination: Getting,
  versions: TypeVersions,
): Promise<Readonly<{ kind: "event"; event: E }> | Exclude<Transformed, TransformedRequest>> {
  const { version } = event;
  if (version === undefined || !isConverted(event, destination)) return { kind: "event", event };
  const text = textOf(event.body);
  if (text === undefined) return { kind: "event", event };
  const known = versions.get(event.type) ?? [];
  const wanted = versionFor({ ...event, version }, destination);
  if (wanted === "unreadable") return UNREADABLE_PINS;
  const target = wanted === "as_created" ? newestAt(known, destination.createdAt) : wanted;
  const { data, timestamp } = JSON.parse(text) as { data: unknown; timestamp: string };
  const apply = (await conversions(services))(event, timestamp);
  const result = convertedTo(target, { ...event, version, data }, known, apply);
  if (result.kind !== "data") return result;
  const body = bodyOfText(envelopeOf(event.type, timestamp, result.data));
  const headers = { ...event.headers, ...datesOf(known.find((one) => one.version === target)) };
  return { kind: "event", event: { ...event, body, ...(Object.keys(headers).length > 0 && { headers }) } };
}

const UNREADABLE_PINS = {
  kind: "fault",
  fault: { field: "event_versions", fault: "what is stored cannot be read; save it again" },
} as const;

/** The headers of a deprecated version: RFC 9745, section 2, and RFC 8594, section 3. */
function datesOf(version: ConvertingVersion | undefined): Record<string, string> {
  const { deprecatedAt = null, sunsetAt = null } = version ?? {};
  return {
    ...(deprecatedAt !== null && { deprecation: `@${Math.floor(deprecatedAt / 1000)}` }),
    ...(sunsetAt !== null && { sunset: new Date(sunsetAt).toUTCString() }),
  };
}
