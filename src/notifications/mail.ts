/**
 * Mails to the operator: the same things that are told as events, for whoever has no receiver for those. They
 * are few, whatever happens: one an hour about the same thing, and so many an hour in all.
 */

import { claimMail } from "../db/notifications.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { OperationalEvent, OperationalType } from "./operational-events.ts";

// §§ A mail's words: pure. The platform makes the message of them; here it is only seen to that nothing of a
// tenant's or a host's name can be read as anything but text.

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

function mailAbout({ type, data }: OperationalEvent): MailWords {
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

/** Sends it, where e-mail is bound and addressed and it is not one too many. A failure is logged, not thrown. */
export async function mail(services: Services, event: OperationalEvent): Promise<void> {
  const { log, now } = services;
  const { type, destination } = event;
  const mailbox = mailboxOf(services);
  if (mailbox === undefined) return;
  const about = [type, destination ?? event.data.threshold].filter(Boolean).join(" ");
  if (!(await claimMail(services.db, about, now()))) return;
  try {
    await mailbox.mailer.send({ from: mailbox.from, to: mailbox.to, ...mailAbout(event) });
    log({ what: "mail_sent", type, destination });
  } catch (error) {
    log({ what: "mail_failed", type, destination, error: faultOf(error) });
  }
}

/** Who sends mails, from whom and to whom; undefined where none are wanted. */
export function mailboxOf({ mailer, config: { alertEmail } }: Pick<Services, "mailer" | "config">) {
  return mailer && alertEmail && { mailer, ...alertEmail };
}
