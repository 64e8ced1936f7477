/**
 * Mails to the operator: the same things that are told as events, for whoever has no receiver for those. They
 * are few, whatever happens: one an hour about the same thing, and so many an hour in all.
 */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { claimMail } from "../store/mails.ts";
import { mailAbout } from "./mail-words.ts";
import type { OperationalEvent } from "./operational-event.ts";

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
