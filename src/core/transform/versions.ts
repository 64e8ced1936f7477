/**
 * Versions of a destination's transformation. The event decides which of them counts, not the time of an attempt: the
 * same event has the same bytes on every attempt, even if a version was saved meanwhile.
 */
import { actorKinds } from "../audit.ts";
import { bundleOf } from "../bundle.ts";
import { databaseNumberOf } from "../placement.ts";
import { readAs, type Shape, type ShapeType } from "../shape.ts";
import type { Transformed } from "./result.ts";
import { templateShape } from "./template.ts";

/** The fields that determine the events of a saved version. */
export const savedFields = {
  /** The last bundle of the first database when it was saved: later events are for it. -1: all are. */
  after: { kind: "number", whole: true },
  /** When it was saved, epoch ms. */
  at: { kind: "number" },
} as const;

const stored = {
  kind: "object",
  fields: {
    /** From 1. */
    version: { kind: "number", whole: true },
    ...savedFields,
    /** The actor that saved it, as in the audit trail. */
    by: {
      kind: "object",
      fields: {
        kind: { kind: "choice", values: actorKinds },
        key: { kind: "text", nullable: true },
        session: { kind: "text", nullable: true },
        person: { kind: "text", optional: true },
      },
      others: "dropped",
    },
    /** Null: from this version on events are sent as they are. Absent if there is code. */
    template: { ...templateShape, nullable: true, optional: true },
    /** The module of a version in code (code.ts). Earlier versions of Breakwater cannot read such a version, and wait. */
    code: { kind: "text", optional: true },
  },
  others: "dropped",
} as const satisfies Shape;

export type TransformVersion = Readonly<ShapeType<typeof stored>>;

/** The version in a stored value; undefined when it was edited into something else. */
export function transformVersionIn(value: unknown): TransformVersion | undefined {
  const version = readAs(stored, value);
  return version && (version.template === undefined) !== (version.code === undefined) ? version : undefined;
}

/** Whether events are sent as they are from the version on. */
export function sendsAsIs({ template }: TransformVersion): boolean {
  return template === null;
}

/**
 * Further databases don't say which events were committed before the version was saved, so there the time of acceptance
 * decides: later than the clocks of two isolates can differ. An event committed before cannot be as new, so that no
 * attempt was made with the former version.
 */
export const CLOCKS_DIFFER_MS = 5_000;

type Numbered = Readonly<{ id: number; acceptedAt: number }>;
type Saved = Pick<TransformVersion, "after" | "at">;

/** Whether the event came after the version was saved. */
export function isFor({ after, at }: Saved, { id, acceptedAt }: Numbered): boolean {
  if (after < 0) return true;
  return databaseNumberOf(id) === 0 ? bundleOf(id) > after : acceptedAt >= at + CLOCKS_DIFFER_MS;
}

/** All versions that are stored. Where those before the oldest have been removed, that counts for their events too. */
export function withOldest(versions: readonly TransformVersion[]): readonly TransformVersion[] {
  const [oldest, ...others] = versions;
  return oldest && oldest.version > 1 ? [{ ...oldest, after: -1 }, ...others] : versions;
}

/** A transformation's result with the version that it comes from; 0: from before the first one. */
export type Versioned = Readonly<{ version: number; result: Transformed | undefined }>;

/**
 * The versions that may make the event's request, in the order in which they are tried: the one that counts for the
 * event, and later ones. A version that fails will always fail, so no attempt can have been made with it: then the next
 * newer one counts, and saving a better version repairs waiting deliveries. None: the event is from before the first
 * one.
 * @param versions the oldest first
 */
export function versionsFor<V extends Saved>(versions: readonly V[], event: Numbered): readonly V[] {
  const own = versions.findLastIndex((version) => isFor(version, event));
  return own < 0 ? [] : versions.slice(own);
}
