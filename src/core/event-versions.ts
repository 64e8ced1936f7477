/**
 * Versions of event types: which of them an endpoint gets, and how an event's data is converted down to it, one version at a
 * time. An event carries the version that its data was posted in; one of a type with a single version carries none.
 */
import type { EventVersion } from "./bundle.ts";
import { readAs, type Shape, type ShapeType } from "./shape.ts";
import { isFor, savedFields, versionsFor } from "./transform/versions.ts";

/** Changes of an endpoint's pins, and of a conversion, that are kept. An older one counts as the oldest that is kept. */
export const MOST_CHANGES = 20;

const pinsShape = {
  kind: "list",
  of: {
    kind: "object",
    fields: { ...savedFields, pins: { kind: "record", of: { kind: "number", whole: true, min: 1 } } },
    others: "dropped",
  },
} as const satisfies Shape;

const conversionsShape = {
  kind: "list",
  of: {
    kind: "object",
    fields: { ...savedFields, template: { kind: "text" } },
    others: "dropped",
  },
} as const satisfies Shape;

/** Pins of an endpoint by type, the oldest first. */
export type PinChanges = Readonly<ShapeType<typeof pinsShape>>;
/** The templates of a conversion to the version before, the oldest first. */
export type Conversions = Readonly<ShapeType<typeof conversionsShape>>;

/** Undefined for a value that was edited into something else. */
export function pinsIn(stored: unknown): PinChanges | undefined {
  return stored === null ? [] : readAs(pinsShape, stored);
}

export type PublishedVersion = Readonly<{ version: number; publishedAt: number; conversions: unknown }>;

/** An endpoint: when it was created, epoch ms, and its pins. */
export type Subscriber = Readonly<{ createdAt: number; eventVersions: unknown }>;

type Versioned = Readonly<{ id: number; acceptedAt: number; type: string; version: EventVersion }>;

/**
 * The version in which the endpoint gets the event, where that is known without the versions of the type: the one that it
 * was pinned to when the event was accepted, or the event's, if that is older. Without a pin, the newest when the endpoint
 * was created: `as_created` where that is an older one than the event's.
 */
export function versionFor(
  event: Versioned,
  { createdAt, eventVersions }: Subscriber,
): number | "as_created" | "unreadable" {
  const { version, since } = event.version;
  const changes = pinsIn(eventVersions);
  if (changes === undefined) return "unreadable";
  const pins = changes.findLast((one) => isFor(one, event))?.pins ?? {};
  const pinned = Object.hasOwn(pins, event.type) ? pins[event.type] : undefined;
  if (pinned !== undefined) return Math.min(pinned, version);
  return createdAt >= since ? version : "as_created";
}

/** The newest of the versions that had been published at a time, epoch ms. The first has always been there. */
export function newestAt(versions: readonly PublishedVersion[], at: number): number {
  return versions.reduce((n, { version, publishedAt }) => (publishedAt <= at ? Math.max(n, version) : n), 1);
}

/** The result of a conversion. */
export type Converted =
  | Readonly<{ kind: "data"; data: unknown }>
  | Readonly<{ kind: "cancelled" }>
  | Readonly<{ kind: "fault"; fault: ConversionFault }>;

type ConversionFault = Readonly<{
  field: string;
  fault: string;
  line?: number | undefined;
  column?: number | undefined;
}>;

/**
 * The event's data in an earlier version: one conversion after the other. The last template of each that was saved
 * before the event was accepted counts; one that fails will always fail, so then the next newer one counts.
 * @param apply applies a template to data
 */
export function convertedTo(
  target: number,
  event: Versioned & Readonly<{ data: unknown }>,
  versions: readonly PublishedVersion[],
  apply: (template: string, data: unknown) => Converted,
): Converted {
  let data = event.data;
  for (let from = event.version.version; from > target; from--) {
    const stored = versions.find(({ version }) => version === from);
    let result: Converted | undefined;
    for (const { template } of versionsFor(readAs(conversionsShape, stored?.conversions) ?? [], event)) {
      result = apply(template, data);
      if (result.kind !== "fault") break;
    }
    if (result === undefined)
      return faultOf(event.type, from, { field: "conversion", fault: "is not stored" });
    if (result.kind === "fault") return faultOf(event.type, from, result.fault);
    if (result.kind === "cancelled") return result;
    data = result.data;
  }
  return { kind: "data", data };
}

function faultOf(type: string, from: number, { field, ...rest }: ConversionFault): Converted {
  return {
    kind: "fault",
    fault: { ...rest, field: `conversion of ${type} from version ${from} to ${from - 1}, ${field}` },
  };
}
