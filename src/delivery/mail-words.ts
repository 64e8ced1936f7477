/**
 * A mail's words: pure. The platform makes the message of them; here it is only seen to that nothing of a
 * tenant's or a host's name can be read as anything but text.
 */
import type { OperationalEvent, OperationalType } from "./operational-event.ts";

export type MailWords = Readonly<{ subject: string; text: string }>;

const LONGEST_SUBJECT = 160;

const says: Readonly<Record<OperationalType, string>> = {
  "destination.circuit_opened": "Circuit opened",
  "destination.circuit_closed": "Circuit closed",
  "destination.paused": "Paused",
  "destination.resumed": "Resumed",
  "destination.storm_detected": "Retry storm",
  "destination.recovered": "Retry storm is over",
  "delivery.dead": "Deliveries ended dead",
  "sweep.stalled": "The sweep has stalled",
  "threshold.crossed": "A threshold is crossed",
};

export function mailAbout({ type, data }: OperationalEvent): MailWords {
  const subject = [says[type], whom(data)].filter(Boolean).join(": ");
  const facts = flat(data).map(([name, value]) => `${name}: ${oneLine(value)}`);
  const text = [
    `${says[type]} (${type})`,
    "",
    ...facts,
    "",
    "There is at most one mail an hour about the same thing. Everything is in the log, and goes as events to",
    "the destinations of the tenant operator.",
  ].join("\n");
  return { subject: `[Breakwater] ${oneLine(subject).slice(0, LONGEST_SUBJECT)}`, text };
}

function whom({ host, destination_id: id, threshold }: OperationalEvent["data"]): string {
  return String(threshold ?? (host ? `${host} (${id})` : (id ?? "")));
}

/** `last_15_minutes.retries` and the like, so that each fact is one line; so is a list. */
function flat(data: Readonly<Record<string, unknown>>, before = ""): [string, unknown][] {
  return Object.entries(data).flatMap(([name, value]): [string, unknown][] =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? flat(value as Record<string, unknown>, `${before}${name}.`)
      : [[`${before}${name}`, Array.isArray(value) ? value.join(", ") : value]],
  );
}

/** Control characters, line ends of every kind among them, are spaces: a subject is one line of a header. */
function oneLine(value: unknown): string {
  return String(value).replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ");
}
