/** Notice channels: shown, set, removed and tested, each for one destination of the caller's tenant. */
import { changesBetween } from "../../core/audit.ts";
import type { NoticeChannel } from "../../core/notices.ts";
import {
  conflict,
  errorAt,
  errorIf,
  type FieldError,
  invalidFields,
  missing,
  ok,
} from "../../core/result.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import { changeDestination, type DestinationChange } from "../../store/destinations.ts";
import { destinationService, refuseTest } from "../destinations/one.ts";
import { addressErrors, urlErrors } from "../destinations/validate.ts";
import type { Call } from "../service.ts";
import { noticeChannelOf, noticeKindsOf, sealNoticeTarget, shownNoticeTarget } from "./channel.ts";
import { type NewNoticeChannel, noticeChannelView } from "./schema.ts";
import { endpointLink, sendNotice } from "./send.ts";
import { findNotice } from "./sql.ts";

/** The channel, with its last notice while there is trouble. */
export const getNoticeChannel = destinationService(
  { scope: "read", action: "read" },
  async ({ services }, destination, id) => {
    const channel = noticeChannelOf(destination);
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

/** Sets the channel in place of another. Without a target, that of a channel of the same kind stays. */
export const setNoticeChannel = destinationService(
  changes,
  async (call, destination, { id, channel: given, requestUrl }: Setting) => {
    const { services } = call;
    const { kind, on, open_after_minutes, language } = given;
    const stored = noticeChannelOf(destination);
    const keptTarget = stored?.kind === kind ? stored.target : undefined;
    const errors = [...channelErrors(services, given, keptTarget), ...urlErrors(services, given, requestUrl)];
    if (errors.length > 0) return invalidFields(errors);
    const isPrivate = await addressErrors(services, { url: given.url, auth: undefined });
    if (isPrivate.length > 0) return invalidFields(isPrivate);
    const own = kind === "mail" ? given.email : given.url;
    const target = own === undefined ? (keptTarget ?? "") : shownNoticeTarget(own);
    const channel: NoticeChannel = { kind, target, on, open_after_minutes, language };
    const sealed = own === undefined ? undefined : await sealNoticeTarget(services.vault, id, own);
    const set = await changeChannel(call, destination, { noticeChannel: channel, noticeTarget: sealed });
    return set.kind === "ok" ? ok(noticeChannelView(channel)) : set;
  },
);

export const removeNoticeChannel = destinationService(changes, async (call, destination) => {
  if (destination.noticeChannel === null) return ok(undefined);
  return changeChannel(call, destination, { noticeChannel: null, noticeTarget: null });
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
export const testNoticeChannel = destinationService(
  { scope: "admin", action: "send_test", role: "repair" },
  async ({ services }, endpoint, id) => {
    const channel = noticeChannelOf(endpoint);
    if (channel === undefined) return missing("notice channel of", id);
    const refused = await refuseTest(services, id);
    if (refused) return refused;
    const link = endpointLink(services, id);
    const notice = { events: ["test"] as const, endpoint, openedAt: null, link };
    const sent = await sendNotice(services, endpoint, channel, { id: `notice_test_${id.slice(4)}`, notice });
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
  if (!kinds.includes(kind))
    return errorAt("kind", `is ${kind}, and this deployment sends no mails`, kinds.join(", "));
  const [mine, other] = kind === "mail" ? (["email", "url"] as const) : (["url", "email"] as const);
  const given = { email, url };
  const expected = kind === "mail" ? "an email address" : "an https URL";
  return [
    ...errorIf(given[other] !== undefined, other, `is not a field of the kind ${kind}`, `only ${mine}`),
    ...errorIf((given[mine] ?? keptTarget) === undefined, mine, "is missing", expected),
  ];
}
