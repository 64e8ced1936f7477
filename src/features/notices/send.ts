/**
 * Sends a notice once, without repeats: the caller decides whether to send again. If the channel may have taken the notice
 * without confirming it, the answer is `unknown`.
 */

import { linkHostOf } from "../../config.ts";
import { envelopeOf } from "../../core/content.ts";
import { renderedMessage } from "../../core/message-templates.ts";
import type { NoticeChannel } from "../../core/notices.ts";
import { prepare } from "../../delivery/admission.ts";
import { connections } from "../../delivery/connections.ts";
import { bodyOfText, call, requestHeadersOf } from "../../delivery/http.ts";
import { kindOf } from "../../delivery/kinds/sending.ts";
import { orLogged } from "../../log.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import { isoTime } from "../../time.ts";
import { sendMail } from "../notifications/mail.ts";
import { openNoticeTarget } from "./channel.ts";
import { type Notice, noticeMessage, noticeText } from "./texts.ts";

type NoticeSent =
  | Readonly<{ kind: "sent" }>
  /** The channel has not taken it. */
  | Readonly<{ kind: "refused" | "unknown"; fault: string }>;

/** The type of the event that a webhook gets. */
const NOTICE_TYPE = "endpoint.notice";

const TIMEOUT_MS = 10_000;

/** The page of the portal that shows the endpoint. It opens only with a session: a notice gives no rights. */
export function endpointLink({ config }: Pick<Services, "config">, id: string): string | undefined {
  const host = linkHostOf(config);
  return host && `https://${host}/portal/endpoints/${id}`;
}

/**
 * Sends the notice to the destination's channel.
 * @param id the same for the same notice: receivers of webhooks know a repeat by it, and mails are limited by it
 */
export async function sendNotice(
  services: Services,
  row: Destination,
  channel: NoticeChannel,
  { id, notice }: Readonly<{ id: string; notice: Notice }>,
): Promise<NoticeSent> {
  const sent = await toChannel(services, row, channel, id, notice);
  const line = { destination: row.id, channel: channel.kind, events: notice.events.join(" ") };
  if (sent.kind === "sent") services.log({ what: "notice_sent", ...line });
  else services.log({ what: "notice_failed", ...line, outcome: sent.kind, fault: sent.fault });
  return sent;
}

async function toChannel(
  services: Services,
  row: Destination,
  channel: NoticeChannel,
  id: string,
  notice: Notice,
): Promise<NoticeSent> {
  const target = await orLogged(services, { what: "secret_unreadable", destination: row.id }, () =>
    openNoticeTarget(services.vault, row.id, row.noticeTarget ?? ""),
  );
  if (target === undefined)
    return refused("its target cannot be opened with the master keys of the deployment");
  return channel.kind === "mail"
    ? byMail(services, row, target, channel, id, notice)
    : byHttp(services, row, target, id, bodyOf(services, channel, notice));
}

async function byMail(
  services: Services,
  { id: destination, tenant }: Destination,
  to: string,
  { language }: NoticeChannel,
  about: string,
  notice: Notice,
): Promise<NoticeSent> {
  const { title, subject } = noticeMessage(notice, language);
  const fields = { type: NOTICE_TYPE, destination, tenant };
  const text = noticeText(notice, language);
  const mail = { to, reader: `tenant ${tenant}`, about, fields, subject: `${title}: ${subject}`, text };
  const sent = await sendMail(services, mail);
  return sent === "sent" ? { kind: "sent" } : refused(mailFaults[sent]);
}

const mailFaults = {
  unavailable: "the deployment sends no mails",
  held: "there are too many mails to the tenant, or about this endpoint, in this hour",
  failed: "the mail was not taken",
} as const;

function bodyOf({ now }: Services, { kind, language }: NoticeChannel, notice: Notice): string {
  const message = noticeMessage(notice, language);
  const timestamp = isoTime(now());
  if (kind !== "webhook" && kind !== "mail")
    return renderedMessage(kind, message, { type: NOTICE_TYPE, timestamp });
  const { endpoint, events, openedAt, now: state, link } = notice;
  return envelopeOf(NOTICE_TYPE, timestamp, {
    endpoint_id: endpoint.id,
    endpoint: message.subject,
    events,
    title: message.title,
    text: noticeText(notice, language),
    circuit_open_since: isoTime(openedAt),
    disabled_reason: state?.kind === "disabled" ? state.reason : null,
    ...(link !== undefined && { link }),
  });
}

/** Signed with the endpoint's secret, like its events; other parts of its requests do not go to another host. */
async function byHttp(
  services: Services,
  row: Destination,
  url: string,
  id: string,
  text: string,
): Promise<NoticeSent> {
  const plain = { headers: null, sealedHeaders: null, auth: null, signatureForms: null, targetToken: null };
  const target: Destination = { ...row, ...plain, url };
  const body = bodyOfText(text);
  const { obstacles } = await kindOf(target);
  const obstacle = obstacles(target, services.config)(body);
  if (obstacle) return refused(obstacle.fault);
  const prepared = await prepare(services, connections(), target);
  if (prepared.kind === "unready") return refused(`it cannot be called: ${prepared.refusal.reason}`);
  const { sender } = prepared;
  const message = { id, type: NOTICE_TYPE, body, contentType: "application/json", attempt: 1 };
  const { exchange } = await call(services, {
    post: sender.post,
    type: NOTICE_TYPE,
    headers: (at) => requestHeadersOf(services, message, sender, at),
    credentials: sender.credentials,
    body,
    timeoutMs: TIMEOUT_MS,
  });
  const { kind, status } = exchange;
  if (kind === "response" && status >= 200 && status < 300) return { kind: "sent" };
  if (kind === "response") return refused(`it answered ${status}`);
  return isCertain(kind) ? refused(`no answer: ${kind}`) : { kind: "unknown", fault: `no answer: ${kind}` };
}

function refused(fault: string): NoticeSent {
  return { kind: "refused", fault };
}

/** Whether a request that failed in this way was certainly not taken. */
function isCertain(kind: string): boolean {
  return kind === "refused" || kind === "dns" || kind === "tls" || kind === "challenged";
}
