/**
 * Notices: when the owner of an endpoint is notified of its trouble. There is at most one an hour and endpoint: one
 * notice names everything pending. An end is reported only if the trouble was. Pure.
 *
 * The gate and the destination's row have the endpoint's state when a step is made; reports of events only decide when
 * to check. So a report that is lost, late or repeated causes no wrong notice.
 */
import { portalLanguages } from "./portal-access.ts";
import type { PauseReason } from "./reasons.ts";
import { HOUR_MS, MINUTE_MS } from "./rollups.ts";
import type { Shape, ShapeType } from "./shape.ts";

/** The troubles of an endpoint, the worst first. */
const troubles = ["disabled", "circuit_open", "dead"] as const;
export type EndpointTrouble = (typeof troubles)[number];

export const noticeEvents = [...troubles, "recovered"] as const;
export type NoticeEvent = (typeof noticeEvents)[number];

export const noticeKinds = ["mail", "slack", "discord", "teams", "webhook"] as const;
export type NoticeKind = (typeof noticeKinds)[number];

/** A notice channel as it is stored, except for its target, which is sealed. */
export const noticeChannelShape = {
  kind: "object",
  fields: {
    kind: { kind: "choice", values: noticeKinds, meta: { description: "How notices are sent." } },
    /** The channel as it is shown. */
    target: { kind: "text" },
    on: { kind: "list", of: { kind: "choice", values: noticeEvents }, min: 1, max: noticeEvents.length },
    open_after_minutes: { kind: "number", whole: true, min: 1, max: 1440 },
    language: { kind: "choice", values: portalLanguages },
  },
} as const satisfies Shape;

export type NoticeChannel = Readonly<ShapeType<typeof noticeChannelShape>>;

/** The memory of an endpoint's trouble; times are epoch ms. */
export type NoticeState = Readonly<{
  /** The troubles that the owner has been notified of, and that last. */
  notified: readonly EndpointTrouble[];
  openedAt: number | null;
  /** When deliveries last ended dead. */
  deadAt: number | null;
  /** When the last notice was begun; 0: never. */
  sentAt: number;
}>;

/** The endpoint's state now: it takes events, its circuit is open, or it is paused by hand or by its failures. */
export type EndpointNow =
  | Readonly<{ kind: "taking" | "open" | "paused" }>
  | Readonly<{ kind: "disabled"; reason: Exclude<PauseReason, "manual"> }>;

/** The state after a step, except `sentAt`. */
export type NoticeMemory = Omit<NoticeState, "sentAt">;

type NoticeStep =
  /** One notice about all of these; `after` is what to remember once it has been sent. */
  | Readonly<{ kind: "send"; events: readonly NoticeEvent[]; openedAt: number | null; after: NoticeMemory }>
  /** When to check again, epoch ms. */
  | Readonly<{ kind: "wait"; until: number; after: NoticeMemory }>
  | Readonly<{ kind: "forget" }>;

/** How long a notice of dead deliveries is offered to a channel that refuses it. */
const PENDING_MS = 24 * HOUR_MS;

/** The next step at `now`, epoch ms. */
export function noticeStep(
  { on, open_after_minutes }: Pick<NoticeChannel, "on" | "open_after_minutes">,
  state: NoticeState,
  endpoint: EndpointNow,
  now: number,
): NoticeStep {
  const isWanted = (event: NoticeEvent) => on.includes(event);
  const quietUntil = quietUntilOf(state.sentAt, now);
  const openedAt =
    endpoint.kind === "open" && isWanted("circuit_open") ? Math.min(state.openedAt ?? now, now) : null;
  const openDueAt = openedAt === null ? null : openedAt + open_after_minutes * MINUTE_MS;
  const deadUntil =
    state.deadAt === null ? now : state.deadAt + (state.notified.includes("dead") ? HOUR_MS : PENDING_MS);
  const deadAt = now < deadUntil ? state.deadAt : null;
  // An outage that the owner knows of ends when events are taken again, or silently with a pause by hand.
  const isEnd = endpoint.kind === "taking" || endpoint.kind === "paused";
  const wasNotified = state.notified.some((trouble) => trouble !== "dead");
  const notified = state.notified.filter((trouble) => (trouble === "dead" ? deadAt !== null : !isEnd));
  const isNow: Readonly<Record<EndpointTrouble, boolean>> = {
    disabled: endpoint.kind === "disabled",
    circuit_open: openDueAt !== null && openDueAt <= now,
    dead: deadAt !== null,
  };
  const pending = troubles.filter(
    (trouble) => isNow[trouble] && isWanted(trouble) && !state.notified.includes(trouble),
  );
  const hasRecovered = wasNotified && endpoint.kind === "taking" && isWanted("recovered");
  const events: NoticeEvent[] = [...(hasRecovered ? (["recovered"] as const) : []), ...pending];
  if (events.length > 0 && now >= quietUntil) {
    const after = { notified: [...notified, ...pending], openedAt, deadAt };
    return { kind: "send", events, openedAt, after };
  }
  if (events.length > 0)
    return { kind: "wait", until: quietUntil, after: { notified: state.notified, openedAt, deadAt } };
  const isNothing = notified.length === 0 && openedAt === null && deadAt === null && now >= quietUntil;
  if (isNothing) return { kind: "forget" };
  const due = [quietUntil, openDueAt ?? 0, deadUntil].filter((at) => at > now);
  const until = Math.min(now + HOUR_MS, ...due);
  return { kind: "wait", until, after: { notified, openedAt, deadAt } };
}

/** A time in the future comes from a clock that was wrong: it holds back for no longer than an hour from now. */
function quietUntilOf(sentAt: number, now: number): number {
  return Math.min(sentAt, now) + HOUR_MS;
}

/** How long after a channel has refused a notice it is tried again, later after each refusal. */
export function noticePauseMs(failures: number): number {
  return Math.min(HOUR_MS, 2 ** Math.min(failures, 6) * MINUTE_MS);
}
