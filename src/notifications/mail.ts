/**
 * Mails to the operator: the operational events, for operators without a receiver of their own. They are few, whatever
 * happens: one an hour about the same thing, and `MAILS_AN_HOUR` in all.
 */

import { claimMail } from "../db/notifications.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { OperationalEvent, OperationalType } from "./operational-events.ts";

/** Mails the event, if `send_email` and addresses are configured and the limits allow it. A failure is logged. */
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

/** The mailer and its addresses; undefined where no mails are configured. */
export function mailboxOf({ mailer, config: { alertEmail } }: Pick<Services, "mailer" | "config">) {
  return mailer && alertEmail && { mailer, ...alertEmail };
}

const LONGEST_SUBJECT = 160;

const titles: Readonly<Record<OperationalType, string>> = {
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

/** Subject and text. The platform encodes the message; the text shows names of tenants and hosts as text only. */
function mailAbout({ type, data }: OperationalEvent) {
  const subject = [titles[type], subjectOf(data)].filter(Boolean).join(": ");
  const facts = flat(data).map(([name, value]) => `${name}: ${oneLine(value)}`);
  const text = [
    `${titles[type]} (${type})`,
    "",
    ...facts,
    "",
    "There is at most one mail an hour about the same thing. Everything is in the log, and goes as events to",
    "the destinations of the tenant operator.",
  ].join("\n");
  return { subject: `[Breakwater] ${oneLine(subject).slice(0, LONGEST_SUBJECT)}`, text };
}

/** The threshold or destination that it is about. */
function subjectOf({ host, destination_id: id, threshold }: OperationalEvent["data"]): string {
  return String(threshold ?? (host ? `${host} (${id})` : (id ?? "")));
}

/** One name and value for each line: nested fields as `last_15_minutes.retries`, a list joined. */
function flat(data: Readonly<Record<string, unknown>>, before = ""): [string, unknown][] {
  return Object.entries(data).flatMap(([name, value]): [string, unknown][] =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? flat(value as Record<string, unknown>, `${before}${name}.`)
      : [[`${before}${name}`, Array.isArray(value) ? value.join(", ") : value]],
  );
}

/** Control characters and line ends of every kind become spaces, so that a subject is one line of a header. */
function oneLine(value: unknown): string {
  return String(value).replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ");
}
