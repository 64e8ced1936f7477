/**
 * The notice channel of a destination, as its two columns have it: `notice_channel`, which readers may see, and
 * `notice_target`, the URL or address, sealed under a name of its own because the URL of a chat service is a credential.
 */
import { type NoticeChannel, type NoticeKind, noticeChannelShape, noticeKinds } from "../../core/notices.ts";
import { readAs } from "../../core/shape.ts";
import type { Vault } from "../../secrets/vault.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import { mailboxOf } from "../notifications/mail.ts";

/** The channel; undefined if there is none, or an edit by hand has made it unreadable. */
export function noticeChannelOf({
  noticeChannel,
  noticeTarget,
}: Pick<Destination, "noticeChannel" | "noticeTarget">): NoticeChannel | undefined {
  return noticeChannel === null || noticeTarget === null
    ? undefined
    : readAs(noticeChannelShape, noticeChannel);
}

/** The kinds that this deployment can send. */
export function noticeKindsOf(services: Pick<Services, "mailer" | "config">): readonly NoticeKind[] {
  return noticeKinds.filter((kind) => kind !== "mail" || mailboxOf(services) !== undefined);
}

/** The part of a target that readers see: an address, or a URL without the path and query, which may be a credential. */
export function shownNoticeTarget(target: string): string {
  const url = URL.parse(target);
  return url === null || !target.startsWith("http") ? target : `${url.origin}/…`;
}

export function sealNoticeTarget(vault: Vault, destination: string, target: string): Promise<string> {
  return vault.seal(sealedName(destination), target, "notice");
}

/** The URL or address. Rejects, with nothing of it in the message, when it cannot be opened. */
export function openNoticeTarget(vault: Vault, destination: string, sealed: string): Promise<string> {
  return vault.openText(sealedName(destination), "notice", sealed);
}

/** The same, sealed with the first master key; undefined when it is, or when there is none. */
export async function rotatedNoticeTarget(
  vault: Vault,
  { id, noticeTarget }: Pick<Destination, "id" | "noticeTarget">,
): Promise<string | undefined> {
  if (noticeTarget === null || vault.isCurrent(noticeTarget)) return undefined;
  return vault.sealAgain(sealedName(id), noticeTarget);
}

function sealedName(destination: string): string {
  return `${destination}.notice_target`;
}
