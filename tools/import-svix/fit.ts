/**
 * Fits each field to Breakwater's limits, and describes what is lost. Nothing is fitted silently: what is cut or left
 * out has a note. Pure.
 */
import {
  EVENT_TYPE,
  HEADER_NAME,
  HEADER_VALUE,
  isReserved,
  MAX_DESCRIPTION,
  MAX_EVENT_TYPE,
  MAX_EVENT_TYPES,
  MAX_HEADERS,
  metadataLimits,
  UID,
} from "../../src/core/destination-fields.ts";
import { schemaFaults } from "../../src/core/json-schema.ts";
import { withPlainNumbers } from "../../src/core/json-value.ts";
import { limitShape } from "../../src/core/limits.ts";
import { channelShape } from "../../src/core/routing.ts";
import { namedHeaders } from "../../src/core/signature-forms.ts";
import { looksLikeId } from "../../src/ids.ts";
import { fitsEveryForm } from "../../src/secrets/signing.ts";
import { counted, printable } from "./printable.ts";

/** The value that is taken, and notes on what is not. */
type Fitted<T> = Readonly<{ value: T; notes: readonly string[] }>;

/** Why something is not copied at all. */
type NotCopied = Readonly<{ refused: string }>;

/**
 * The name at the target of an application or an endpoint: its `uid`, or else the source's id. So code that uses their
 * ids continues to work, and a second run finds the objects of the first. The target refuses the ids of another
 * deployment of Breakwater, which look like its own, and the names `.` and `..`, which no path can have.
 */
export function uidOf({ id, uid }: Readonly<{ id: string; uid: string | null }>): string {
  const name = uid ?? id;
  return looksLikeId(name) || !UID.test(name) ? `former-${name}` : name;
}

/**
 * A note of the others, if there are any.
 * @param why follows their names
 */
function leftOut(what: string, others: readonly string[], why: string): string[] {
  return others.length > 0 ? [`${what} ${others.map(printable).join(", ")}: ${why}`] : [];
}

/** Cuts a text that is too long. */
export function fitText(what: string, given: string, most: number): Fitted<string> {
  if (given.length <= most) return { value: given, notes: [] };
  return { value: given.slice(0, most), notes: [`${what} of ${given.length} characters: cut to ${most}`] };
}

export function fitDescription(given: string): Fitted<string> {
  return fitText("description", given, MAX_DESCRIPTION);
}

/** The one name that no map of the API takes (src/core/record.ts). */
const UNTAKEN_NAME = "__proto__";

export function fitMetadata(given: Readonly<Record<string, string>>): Fitted<Record<string, string>> {
  const { keys, keyLength, valueLength } = metadataLimits;
  const entries = Object.entries(given);
  const fitting = entries.filter(
    ([key, value]) =>
      key.length >= 1 && key.length <= keyLength && value.length <= valueLength && key !== UNTAKEN_NAME,
  );
  const others = entries.filter((entry) => !fitting.includes(entry)).map(([key]) => key);
  const kept = fitting.slice(0, keys);
  const over = fitting.length - kept.length;
  const limits = `keys have 1 to ${keyLength} characters and values at most ${valueLength}; left out`;
  return {
    value: Object.fromEntries(kept),
    notes: [
      ...leftOut("metadata", others, limits),
      ...(over > 0 ? [`metadata: ${counted(over, "key")} more than ${keys}; left out`] : []),
    ],
  };
}

/** Fits a rate: numbers below 1 mean no limit, and numbers above the largest become the largest. */
export function fitRate(given: number | null): Fitted<number | null> {
  const most = limitShape.fields.rate_per_second.max;
  if (given === null || (Number.isInteger(given) && given >= 1 && given <= most))
    return { value: given, notes: [] };
  const value = given > most ? most : null;
  return { value, notes: [`throttleRate ${given}: ${value === null ? "left out" : `lowered to ${most}`}`] };
}

/**
 * Fits event types. An endpoint whose types are all refused is not copied, because without types it would get
 * everything.
 */
export function fitEventTypes(given: readonly string[] | null): Fitted<string[] | null> | NotCopied {
  if (given === null) return { value: null, notes: [] };
  const value = [...new Set(given)].filter(isEventType);
  const others = given.filter((type) => !isEventType(type));
  if (value.length === 0)
    return {
      refused: `none of its event types has a name that is allowed here: ${others.map(printable).join(", ")}`,
    };
  if (value.length > MAX_EVENT_TYPES)
    return {
      refused: `it has ${value.length} event types; a destination has at most ${MAX_EVENT_TYPES}, or patterns such as invoice.*`,
    };
  return { value, notes: leftOut("event types", others, "not allowed as names; left out") };
}

export function isEventType(name: string): boolean {
  return name.length <= MAX_EVENT_TYPE && EVENT_TYPE.test(name);
}

/** Fits channels, like event types: an endpoint without channels would get all messages. */
export function fitChannels(
  given: readonly string[],
  areTaken: boolean,
): Fitted<string[] | null> | NotCopied {
  if (given.length === 0) return { value: null, notes: [] };
  const names = given.map(printable).join(", ");
  if (!areTaken)
    return {
      refused: `it takes the channels ${names} alone, which this target does not know; without them it would get every message`,
    };
  const value = given.filter(isChannelName);
  if (value.length === 0)
    return { refused: `none of its channels has a name that is allowed here: ${names}` };
  const others = given.filter((name) => !isChannelName(name));
  return { value, notes: leftOut("channels", others, "not allowed as names; left out") };
}

const isChannelName = (name: string) => channelShape.pattern.test(name);

const FORMS = [{ form: "standard" }, { form: "svix" }] as const;

/** Headers that every delivery to an endpoint has anyway. */
const OWN_HEADERS: ReadonlySet<string> = new Set(
  FORMS.flatMap((form) => namedHeaders(form)).map(({ name }) => name),
);

export function fitHeaders(given: Readonly<Record<string, string>>): Fitted<Record<string, string>> {
  const entries = Object.entries(given);
  const seen = new Set<string>();
  const fitting = entries.filter(([name, value]) => {
    const lower = name.toLowerCase();
    const isNew = !seen.has(lower);
    seen.add(lower);
    return isNew && HEADER_NAME.test(name) && HEADER_VALUE.test(value) && isOwnToGive(lower);
  });
  const kept = fitting.slice(0, MAX_HEADERS);
  const others = entries.filter((entry) => !kept.includes(entry)).map(([name]) => name);
  return { value: Object.fromEntries(kept), notes: leftOut("headers", others, "not allowed here; left out") };
}

function isOwnToGive(lowerName: string): boolean {
  return lowerName !== UNTAKEN_NAME && !isReserved(lowerName) && !OWN_HEADERS.has(lowerName);
}

/** The secret as Breakwater takes it, with the bytes that it has at the source. */
export function fitSecret(given: string): Readonly<{ value: string }> | NotCopied {
  if (/^wh(pk|sk)/.test(given))
    return {
      refused:
        "it signs with an ed25519 key pair, of which the source shows only the public half: create it by hand, and give its " +
        "receiver the new key",
    };
  const value = given.startsWith("whsec_") ? given : `whsec_${given}`;
  if (fitsEveryForm(value)) return { value };
  return { refused: "its secret is not the base64 of 24 to 64 bytes: rotate it at the source first" };
}

/** A schema of a catalogue entry: the newest version, if Breakwater knows all of its keywords. */
export function fitSchemas(given: Readonly<Record<string, unknown>> | null): Fitted<unknown> {
  const versions = Object.entries(given ?? {}).toSorted(([a], [b]) => versionOf(a) - versionOf(b));
  const newest = versions.at(-1);
  if (newest === undefined) return { value: undefined, notes: [] };
  const [version, schema] = newest;
  const others = versions.slice(0, -1).map(([name]) => name);
  const notes = leftOut("schemas", others, `only ${printable(version)} is copied`);
  const [fault] = schemaFaults(withPlainNumbers(schema));
  if (fault === undefined) return { value: schema, notes };
  const where = fault.pointer === "" ? "it" : fault.pointer;
  const why = `schema left out: ${printable(`${where} ${fault.fault}`)}; expected ${fault.expected}`;
  return { value: undefined, notes: [...notes, why] };
}

function versionOf(name: string): number {
  const version = Number(name);
  return Number.isFinite(version) ? version : -1;
}
