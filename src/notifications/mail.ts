/**
 * Mails to the operator: the operational events, for operators without a receiver of their own. They are few, whatever
 * happens: one an hour about the same thing, and `MAILS_AN_HOUR` in all.
 */

import { messageAbout } from "../core/operational-message.ts";
import { claimMail } from "../db/notifications.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { OperationalEvent } from "./operational-events.ts";

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

/** Subject and text. The platform encodes the message; the text shows names of tenants and hosts as text only. */
function mailAbout({ type, data }: OperationalEvent) {
  const { title, subject, facts, link } = messageAbout(type, data);
  const about = [title, subject].filter(Boolean).join(": ");
  const text = [
    `${title} (${type})`,
    "",
    ...facts.map(([name, value]) => `${name}: ${value}`),
    ...(link === undefined ? [] : ["", link]),
    "",
    "There is at most one mail an hour about the same thing. Everything is in the log, and goes as events to",
    "the destinations of the tenant operator.",
  ].join("\n");
  return { subject: `[Breakwater] ${about.slice(0, LONGEST_SUBJECT)}`, text };
}
