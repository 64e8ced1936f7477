/**
 * Mails: the operational events to the operator, for operators without a receiver; and to a tenant, when Breakwater has
 * disabled one of its destinations, or a notice goes by mail (features/notices). Their number is limited: one an hour
 * about the same subject, and `MAILS_AN_HOUR` in all to the operator, and to each tenant.
 */

import { linkHostOf } from "../../config.ts";
import { messageAbout } from "../../core/operational-message.ts";
import { OPERATOR } from "../../core/principal.ts";
import { disableReasons } from "../../core/reasons.ts";
import { faultOf, orLogged } from "../../log.ts";
import { newTokenId, signToken } from "../../secrets/tokens.ts";
import type { Services } from "../../services.ts";
import type { StatusChange } from "../../store/status-changes.ts";
import { insertAuditEntries } from "../audit/sql.ts";
import { findTenantSettings } from "../tenants/settings.ts";
import type { OperationalEvent } from "./operational-events.ts";
import { claimMail } from "./sql.ts";

/** Mails the event, if `send_email` and addresses are configured and the limits allow it. A failure is logged. */
export async function mail(services: Services, event: OperationalEvent): Promise<void> {
  const { type, destination } = event;
  const to = services.config.alertEmail?.to;
  if (to === undefined) return;
  const about = [type, destination ?? event.data.threshold].filter(Boolean).join(" ");
  await sendMail(services, {
    to,
    reader: OPERATOR,
    about,
    fields: { type, destination },
    ...mailAbout(event),
  });
}

/**
 * Mails a tenant, at its `contact_email`, that Breakwater has disabled one of its destinations, with a link to its
 * portal. Safe to repeat within an hour. A failure is logged. Not sent if a notice goes to a channel of the tenant.
 */
export async function mailContact(services: Services, change: StatusChange): Promise<void> {
  const reason = DISABLED.find((one) => one === change.reason);
  if (
    change.isNoticed ||
    change.status !== "paused" ||
    reason === undefined ||
    mailboxOf(services) === undefined
  )
    return;
  const { tenant, id: destination } = change;
  const fields = { type: "destination.paused", destination, tenant };
  await orLogged(services, { what: "mail_failed", ...fields }, async () => {
    const to = (await findTenantSettings(services.db, tenant))?.contactEmail;
    const about = { reader: `tenant ${tenant}`, about: destination, fields };
    if (!to) return;
    const link = await portalLink(services, tenant);
    await sendMail(services, { to, ...about, ...disabledMail(change, reason, link) });
  });
}

/** The mailer and its addresses; undefined where no mails are configured. */
export function mailboxOf({ mailer, config: { alertEmail } }: Pick<Services, "mailer" | "config">) {
  return mailer && alertEmail && { mailer, ...alertEmail };
}

type Mail = Readonly<{
  to: string;
  /** The reader whose limit of mails an hour counts. */
  reader: string;
  /** The subject, about which one mail an hour is sent. */
  about: string;
  /** The name of its log line. */
  fields: Readonly<Record<string, unknown>>;
  subject: string;
  text: string;
}>;

/** Sends a mail, if mails are configured and the limits allow it (`held`: they do not). A failure is logged. */
export async function sendMail(
  services: Services,
  { to, reader, about, fields, subject, text }: Mail,
): Promise<"sent" | "held" | "unavailable" | "failed"> {
  const { log, now, db } = services;
  const mailbox = mailboxOf(services);
  if (mailbox === undefined) return "unavailable";
  if (!(await claimMail(db, reader, about, now()))) return "held";
  try {
    await mailbox.mailer.send({
      ...{ from: mailbox.from, to, text },
      subject: `[Breakwater] ${subject.slice(0, LONGEST_SUBJECT)}`,
    });
    log({ what: "mail_sent", ...fields });
    return "sent";
  } catch (error) {
    log({ what: "mail_failed", ...fields, error: faultOf(error) });
    return "failed";
  }
}

const LONGEST_SUBJECT = 160;

/** Subject and text. The platform encodes the message; the text shows names of tenants and hosts as text only. */
function mailAbout({ type, data }: OperationalEvent) {
  const { title, subject, facts, link } = messageAbout(type, data);
  const text = [
    `${title} (${type})`,
    "",
    ...facts.map(([name, value]) => `${name}: ${value}`),
    ...(link === undefined ? [] : ["", link]),
    "",
    "There is at most one mail an hour about the same problem. Everything is in the log, and is sent as events to",
    "the destinations of the tenant operator.",
  ].join("\n");
  return { subject: [title, subject].filter(Boolean).join(": "), text };
}

const DISABLED = ["gone", ...disableReasons] as const;

const disabledTexts: Readonly<Record<(typeof DISABLED)[number], string>> = {
  gone: "It answered 410 Gone: it takes no more events.",
  rejecting: "It has rejected more than a hundred deliveries in a row.",
  failing: "Nothing could be delivered to it for five days.",
  transform_failing: "Its transformation has failed for more than forty deliveries.",
};

const WEEK_MS = 7 * 24 * 60 * 60_000;

/**
 * A link to the tenant's portal, which opens it once within a week; undefined where the deployment's host is not known.
 * Its visitor has the rights that the tenant's portal allows.
 */
async function portalLink({ config, db, now }: Services, tenant: string): Promise<string | undefined> {
  const host = linkHostOf(config);
  if (host === undefined) return undefined;
  const id = newTokenId();
  const visit = { rules: {}, language: null, theme: null, return_url: null };
  const issuedAt = now();
  const times = { issuedAt, expiresAt: issuedAt + WEEK_MS };
  const claims = { id, keyId: null, tenant, scopes: ["read", "admin"] as const, ...times, visit };
  const token = await signToken(config, "portal", claims);
  const entry = { action: "portal_link.created", subject: id, tenant, changes: null } as const;
  await insertAuditEntries(db, { kind: "breakwater", key: null, session: null }, [entry], now());
  return `https://${host}/portal/enter?token=${token}`;
}

function disabledMail(
  { id, url }: StatusChange,
  reason: (typeof DISABLED)[number],
  link: string | undefined,
) {
  const name = URL.parse(url)?.host || id;
  const text = [
    `Your endpoint ${name} (${id}) gets no more events.`,
    disabledTexts[reason],
    "",
    "Events for it are stored, and wait until it is resumed or their time limit ends. Repair the endpoint, send",
    "it a test event, and resume it.",
    ...(link === undefined ? [] : ["", "This link opens your portal once, within a week:", link]),
  ].join("\n");
  return { subject: `Endpoint disabled: ${name}`, text };
}
