/** Notice channels as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { type NoticeChannel, noticeEvents, noticeKinds } from "../../core/notices.ts";
import { portalLanguages } from "../../core/portal-access.ts";
import { isoTime } from "../../time.ts";
import { documented, strict, time, wholeNumberFrom, wordList } from "../parameters.ts";
import type { NoticeRow } from "./sql.ts";

const KIND_EXPECTED = `expected one of ${noticeKinds.join(", ")}`;
const EMAIL_EXPECTED = "expected an email address of at most 254 characters";
const URL_EXPECTED = "expected an https URL";

const kind = z.enum(noticeKinds, KIND_EXPECTED).openapi({
  example: "slack",
  description:
    "`slack`, `discord` and `teams`: an incoming webhook of that service. `webhook`: an event `endpoint.notice`, signed with " +
    "the destination's secret. `mail`: only where the deployment sends mails.",
});
const on = wordList(noticeEvents, `a list of some of ${noticeEvents.join(", ")}, each once`).describe(
  "`dead`: deliveries have ended dead. `circuit_open`: its circuit has been open for `open_after_minutes`. `disabled`: " +
    "Breakwater has paused it because of its failures. `recovered`: it takes events again, after a notice of one of the last two.",
);
const minutes = wholeNumberFrom(1, 1440, " of minutes");
const language = z.enum(portalLanguages, `expected one of ${portalLanguages.join(", ")}`);

export const newNoticeChannel = strict({
  kind,
  url: z.string(URL_EXPECTED).optional().openapi({
    description:
      "Where notices are posted; for `mail` absent. It is stored sealed, and shown without path and query.",
    example: "https://hooks.slack.com/services/T000/B000/XXXX",
  }),
  email: z
    .email(EMAIL_EXPECTED)
    .max(254, EMAIL_EXPECTED)
    .optional()
    .describe("Where mails go, of the kind `mail`."),
  on: on.default([...noticeEvents]),
  open_after_minutes: minutes.default(10),
  language: language.default("en").describe("The language of notices."),
}).openapi("NewNoticeChannel");

export type NewNoticeChannel = z.infer<typeof newNoticeChannel>;

export const noticeChannel = documented("NoticeChannel", {
  kind,
  target: z.string().openapi({
    description: "The address, or the URL without path and query.",
    example: "https://hooks.slack.com/…",
  }),
  on,
  open_after_minutes: minutes,
  language,
  last_notice_at: time.nullable().describe("When the last notice was sent; null if there is no trouble now."),
  fault: z.string().nullable().openapi({
    description: "Why the channel did not take the last one, if so.",
    example: "it answered 404",
  }),
});

/** @param row what is remembered of its trouble, if there is any */
export function noticeChannelView(channel: NoticeChannel, row?: NoticeRow): z.infer<typeof noticeChannel> {
  const { kind, target, on, open_after_minutes, language } = channel;
  const last_notice_at = row?.sentAt ? isoTime(row.sentAt) : null;
  return { kind, target, on, open_after_minutes, language, last_notice_at, fault: row?.fault ?? null };
}

export const noticeTest = documented("NoticeTest", {
  delivered: z.boolean(),
  fault: z
    .string()
    .nullable()
    .openapi({ description: "Why the channel did not take it, if so.", example: "it answered 404" }),
});
