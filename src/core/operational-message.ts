/**
 * An operational event in words for a person: a title, its severity, its subject, and its facts. Mails and the
 * templates of chat and on-call services are made of it.
 *
 * And as the operational webhooks of Svix (https://docs.svix.com/incoming-webhooks-and-operational-webhooks): `{type,
 * data}` with the names and fields that receivers of those know. An event that has no counterpart there keeps its own
 * type and data.
 */
import { isJsonObject } from "./json-value.ts";

/** The operational events, each with its title and severity. */
const kinds = {
  "destination.circuit_opened": { title: "Circuit opened", severity: "error" },
  "destination.circuit_closed": { title: "Circuit closed", severity: "info" },
  "destination.paused": { title: "Paused", severity: "warning" },
  "destination.resumed": { title: "Resumed", severity: "info" },
  "destination.storm_detected": { title: "Retry storm", severity: "warning" },
  "destination.recovered": { title: "Retry storm is over", severity: "info" },
  "delivery.held": { title: "A key is held", severity: "error" },
  "delivery.dead": { title: "Deliveries ended dead", severity: "error" },
  "consumer.lagging": { title: "A consumer lags behind", severity: "warning" },
  "consumer.caught_up": { title: "A consumer has caught up", severity: "info" },
  "sweep.stalled": { title: "The sweep has stalled", severity: "critical" },
  "threshold.crossed": { title: "A threshold is crossed", severity: "warning" },
} as const satisfies Readonly<Record<string, Readonly<{ title: string; severity: Severity }>>>;

export type OperationalType = keyof typeof kinds;

/** As PagerDuty spells them. */
export type Severity = "critical" | "error" | "warning" | "info";

/** Events that end a problem, with the event that began it. */
const endings: ReadonlyMap<string, OperationalType> = new Map([
  ["destination.circuit_closed", "destination.circuit_opened"],
  ["destination.resumed", "destination.paused"],
  ["destination.recovered", "destination.storm_detected"],
  ["consumer.caught_up", "consumer.lagging"],
]);

export type OperationalMessage = Readonly<{
  title: string;
  severity: Severity;
  /** The destination or threshold that it is about; empty if it is about none. */
  subject: string;
  /** Names and values, each on one line; nested ones as `last_15_minutes.retries`. */
  facts: readonly (readonly [name: string, value: string])[];
  /** The page that shows it, and the text of the link if that is not English. */
  link?: string;
  linkText?: string;
  /** The same for the beginning and the end of one problem. */
  problem: string;
  /** Whether it is the end of its problem. */
  isEnd: boolean;
}>;

type Data = Readonly<Record<string, unknown>>;

/** @param type any type: an operator may post events of its own to its tenant */
export function messageAbout(type: string, data: unknown): OperationalMessage {
  const fields: Data = isJsonObject(data) ? data : { data };
  const { title, severity } = kindOf(type) ?? { title: type, severity: "info" };
  const { link, destination_id: destination, threshold, consumer } = fields;
  const began = endings.get(type);
  const facts = flat(fields)
    .filter(([name]) => name !== "link")
    .map(([name, value]) => [oneLine(name), oneLine(value)] as const);
  return {
    title: oneLine(title),
    severity,
    subject: oneLine(subjectOf(fields)),
    facts,
    ...(typeof link === "string" && /^https:\/\//.test(link) && { link }),
    problem: [began ?? type, destination ?? threshold, consumer].join(" ").trim(),
    isEnd: began !== undefined,
  };
}

function kindOf(type: string) {
  return Object.hasOwn(kinds, type) ? kinds[type as OperationalType] : undefined;
}

/** The threshold or destination that it is about. */
function subjectOf({ host, destination_id: id, threshold }: Data): string {
  return String(threshold ?? (host ? `${host} (${id})` : (id ?? "")));
}

/** One name and value for each line: nested fields as `last_15_minutes.retries`, a list joined. */
function flat(data: Data, before = ""): [string, unknown][] {
  return Object.entries(data).flatMap(([name, value]): [string, unknown][] =>
    isJsonObject(value)
      ? flat(value, `${before}${name}.`)
      : [[`${before}${name}`, Array.isArray(value) ? value.map(textOf).join(", ") : value]],
  );
}

function textOf(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Control characters and line ends of every kind become spaces, so that a subject is one line of a header. */
export function oneLine(value: unknown): string {
  return String(value).replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ");
}

/** The types of Svix that have a counterpart, each with the type of its event. */
export const svixOperational = {
  "endpoint.disabled": "destination.paused",
  "endpoint.enabled": "destination.resumed",
} as const;

const named = new Map<string, string>(
  Object.entries(svixOperational).map(([theirs, ours]) => [ours, theirs]),
);

/** The name that Svix has for the type of an operational event, else the type itself. */
export function svixTypeOf(type: string): string {
  return named.get(type) ?? type;
}

/** @param type any type: an operator may post events of its own to its tenant */
export function svixEventOf(type: string, data: unknown): Readonly<{ type: string; data: unknown }> {
  if (!named.has(type) || typeof data !== "object" || data === null) return { type, data };
  const { tenant, destination_id, reason } = data as Data;
  const about = { appId: tenant, endpointId: destination_id };
  const isDisabled = type === svixOperational["endpoint.disabled"];
  const trigger = reason === "manual" ? "manual" : "automatic";
  return { type: svixTypeOf(type), data: { ...about, ...(isDisabled && { trigger }) } };
}
