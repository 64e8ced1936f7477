/** Notice channels: shown, set, removed and tested, each for one destination of the caller's tenant. */
import { changesBetween } from "../../core/audit.ts";
import type { NoticeChannel } from "../../core/notices.ts";
import { conflict, type FieldError, invalidFields, missing, ok, unavailable } from "../../core/result.ts";
import { atGate } from "../../gate/client.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import { changeDestination, type DestinationChange } from "../../store/destinations.ts";
import { GATE_UNREACHABLE, tooSoon, visibleDestination } from "../destinations/service.ts";
import { addressErrors, urlErrors } from "../destinations/validate.ts";
import { type Call, service } from "../service.ts";
import { noticeChannelOf, noticeKindsOf, sealNoticeTarget, shownNoticeTarget } from "./channel.ts";
import { type NewNoticeChannel, noticeChannelView } from "./schema.ts";
import { endpointLink, sendNotice } from "./send.ts";
import { findNotice } from "./sql.ts";

/** The channel, with its last notice while there is trouble. */
export const getNoticeChannel = service(
  { scope: "read", action: "read" },
  async ({ services, principal }, id: string) => {
    const found = await visibleDestination(services, principal, id);
    if (found.kind !== "ok") return found;
    const channel = noticeChannelOf(found.value);
    if (channel === undefined) return missing("notice channel of", id);
    return ok(noticeChannelView(channel, await findNotice(services.db, id)));
  },
);

const changes = { scope: "admin", action: "change_endpoint", role: "configure" } as const;

type Setting = Readonly<{
  id: string;
  channel: NewNoticeChannel;
  /** The URL of the caller's request: its host can be no channel. */
  requestUrl: string;
}>;

/** Sets the channel in place of another. Without a target, one of the same kind keeps its target. */
export const setNoticeChannel = service(
  changes,
  async (call, { id, channel: given, requestUrl }: Setting) => {
    const { services, principal } = call;
    const { kind, on, open_after_minutes, language } = given;
    const found = await visibleDestination(services, principal, id);
    if (found.kind !== "ok") return found;
    const stored = noticeChannelOf(found.value);
    const keptTarget = stored?.kind === kind ? stored.target : undefined;
    const errors = [...channelErrors(services, given, keptTarget), ...urlErrors(services, given, requestUrl)];
    if (errors.length > 0) return invalidFields(errors);
    const isPrivate = await addressErrors(services, { url: given.url, auth: undefined });
    if (isPrivate.length > 0) return invalidFields(isPrivate);
    const own = kind === "mail" ? given.email : given.url;
    const target = own === undefined ? (keptTarget ?? "") : shownNoticeTarget(own);
    const channel: NoticeChannel = { kind, target, on, open_after_minutes, language };
    const sealed = own === undefined ? undefined : await sealNoticeTarget(services.vault, id, own);
    const set = await changeChannel(call, found.value, { noticeChannel: channel, noticeTarget: sealed });
    return set.kind === "ok" ? ok(noticeChannelView(channel)) : set;
  },
);

export const removeNoticeChannel = service(changes, async (call, id: string) => {
  const { services, principal } = call;
  const found = await visibleDestination(services, principal, id);
  if (found.kind !== "ok") return found;
  if (found.value.noticeChannel === null) return ok(undefined);
  return changeChannel(call, found.value, { noticeChannel: null, noticeTarget: null });
});

/** A change depends on what was read: the target that it keeps may have been replaced meanwhile. */
async function changeChannel({ services, changed }: Call, stored: Destination, change: DestinationChange) {
  const updatedAt = Math.max(services.now(), stored.updatedAt + 1);
  const { id, tenant } = stored;
  const seen = { updatedAt: stored.updatedAt };
  const row = await changeDestination(services.db, id, { ...change, updatedAt }, tenant, seen);
  if (row === undefined) return conflict(`The destination ${id} has just been changed; try again`);
  const [from, to] = [noticeChannelOf(stored), noticeChannelOf(row)];
  const changes = changesBetween({ notices: from ?? null }, { notices: to ?? null });
  changed("destination.changed", row, changes ?? undefined);
  return ok(undefined);
}

/** Sends a test notice at once. The same limit as for test events holds; a test mail goes once an hour. */
export const testNoticeChannel = service(
  { scope: "admin", action: "send_test", role: "repair" },
  async ({ services, principal }, id: string) => {
    const found = await visibleDestination(services, principal, id);
    if (found.kind !== "ok") return found;
    const channel = noticeChannelOf(found.value);
    if (channel === undefined) return missing("notice channel of", id);
    const until = await atGate(services, id, "claimTest");
    if (until === undefined) return unavailable(GATE_UNREACHABLE);
    if (until !== null) return tooSoon(until - services.now());
    const notice = {
      events: ["test"] as const,
      endpoint: found.value,
      openedAt: null,
      link: endpointLink(services, id),
    };
    const sent = await sendNotice(services, found.value, channel, {
      id: `notice_test_${id.slice(4)}`,
      notice,
    });
    return ok({ delivered: sent.kind === "sent", fault: sent.kind === "sent" ? null : sent.fault });
  },
);

/** The errors of a kind that the deployment does not send, and of a target of another kind or none. */
function channelErrors(
  services: Pick<Services, "mailer" | "config">,
  { kind, url, email }: NewNoticeChannel,
  keptTarget: string | undefined,
): FieldError[] {
  const kinds = noticeKindsOf(services);
  if (!kinds.includes(kind)) {
    const fault = `is ${kind}, and this deployment sends no mails`;
    return [{ field: "kind", fault, expected: kinds.join(", ") }];
  }
  const [field, given, other] = kind === "mail" ? ["email", email, "url"] : ["url", url, "email"];
  const foreign = kind === "mail" ? url : email;
  return [
    ...(foreign === undefined
      ? []
      : [{ field: other ?? "", fault: `is no field of the kind ${kind}`, expected: `only ${field}` }]),
    ...(given === undefined && keptTarget === undefined
      ? [
          {
            field: field ?? "",
            fault: "is missing",
            expected: kind === "mail" ? "an email address" : "an https URL",
          },
        ]
      : []),
  ];
}
