/**
 * A bundle's plan and header as they are stored. They may have been edited by hand or damaged, and a header may be of a
 * later version, after a rollback. Jobs read each bundle by itself, skip one that they cannot read, and report it.
 */

import { HEADER_VERSION, type Plan, type Runs, type StoredHeader } from "./bundle.ts";
import { isJsonObject, parsedJson } from "./json-value.ts";

/** The fault that makes a bundle unreadable: its plan, its header, or a header of a later version. */
export type BundleFault = "plan" | "header" | "version";

/** A bundle that a job has skipped. */
export type UnreadableBundle = Readonly<{ bundle: number; fault: BundleFault }>;

type ReadBundle =
  | Readonly<{ kind: "read"; plan: Plan; header: StoredHeader }>
  | Readonly<{ kind: "unreadable"; fault: BundleFault }>;

export function readBundle(stored: Readonly<{ plan: string; header: string }>): ReadBundle {
  const read = readHeader(stored.header);
  if (read.kind === "unreadable") return read;
  const plan = planIn(stored.plan);
  return plan === undefined ? { kind: "unreadable", fault: "plan" } : { ...read, plan };
}

export type ReadHeader =
  | Readonly<{ kind: "read"; header: StoredHeader }>
  | Readonly<{ kind: "unreadable"; fault: Exclude<BundleFault, "plan"> }>;

export function readHeader(stored: string): ReadHeader {
  const header = parsedJson(stored);
  if (!isJsonObject(header)) return { kind: "unreadable", fault: "header" };
  // A later version may have changed everything else.
  if (typeof header.version === "number" && header.version > HEADER_VERSION)
    return { kind: "unreadable", fault: "version" };
  if (!isHeader(header)) return { kind: "unreadable", fault: "header" };
  return { kind: "read", header };
}

/** The header as far as lists show it, also of a later version; undefined when it is none. */
export function headerToShow(stored: string): StoredHeader | undefined {
  const header = parsedJson(stored);
  return isJsonObject(header) && isHeader(header) ? header : undefined;
}

export function planIn(stored: string): Plan | undefined {
  const plan = parsedJson(stored);
  return isJsonObject(plan) && Object.values(plan).every(isNumbers) ? (plan as Plan) : undefined;
}

/** The runs of one destination in a plan; undefined when they are invalid. @param stored null: it is not in the plan */
export function runsIn(stored: string | null): Runs | undefined {
  const runs = stored === null ? [] : parsedJson(stored);
  return isNumbers(runs) ? runs : undefined;
}

/** The times to live of a header; undefined when they are invalid. */
export function ttlsIn(stored: string): NonNullable<StoredHeader["ttls"]> | undefined {
  const ttls = parsedJson(stored);
  return isNamedRuns(ttls, 1) ? (ttls as NonNullable<StoredHeader["ttls"]>) : undefined;
}

function isHeader(header: Readonly<Record<string, unknown>>): header is StoredHeader & typeof header {
  const { tenants, types, events, tags, channels, ttls, erased, addressed, keys, contentTypes } = header;
  const { versions, lines } = header;
  return (
    isNames(tenants) &&
    isNames(types) &&
    isNumbers(events) &&
    isAbsentOr(tags, (list) => isNamedRuns(list, 2)) &&
    isAbsentOr(channels, (list) => isNamedRuns(list, 1)) &&
    isAbsentOr(ttls, (list) => isNamedRuns(list, 1)) &&
    isAbsentOr(erased, isNumbers) &&
    isAbsentOr(addressed, isNumbers) &&
    isAbsentOr(keys, (list) => Array.isArray(list) && list.every(isNames)) &&
    isAbsentOr(contentTypes, isJsonObject) &&
    isAbsentOr(versions, (list) => Array.isArray(list) && list.every(isNumbers)) &&
    isAbsentOr(lines, (own) => isJsonObject(own) && Object.values(own).every(areLines))
  );
}

function areLines(value: unknown): boolean {
  return Array.isArray(value) && value.every((line) => Array.isArray(line) && typeof line[0] === "string");
}

function isAbsentOr(value: unknown, isFine: (value: unknown) => boolean): boolean {
  return value === undefined || isFine(value);
}

function isNames(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

export function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every(Number.isSafeInteger);
}

/** @param place of the runs in each entry */
function isNamedRuns(value: unknown, place: number): boolean {
  return Array.isArray(value) && value.every((entry) => Array.isArray(entry) && isNumbers(entry[place]));
}
