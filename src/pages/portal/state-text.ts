/** The states of endpoints and deliveries in the visitor's language: what happens now, and why. Pure. */

import type { DestinationStatus } from "../../core/destination-status.ts";
import { pauseReasons } from "../../core/reasons.ts";
import type { DeliveryJson } from "../../features/deliveries/schema.ts";
import type { Replay } from "../../store/replays.ts";
import {
  type AttemptEnd,
  attemptsMade,
  capitalized,
  deliveryTone,
  type StateText,
  statusTone,
} from "../ui/status-text.ts";
import type { PortalStyle } from "./look.ts";

export function portalStatusText(look: PortalStyle, status: DestinationStatus, now: number): StateText {
  return {
    tone: statusTone(status),
    label: look.t.status[status.kind],
    text: sentence(look, status, now),
  };
}

function sentence({ t, f }: PortalStyle, status: DestinationStatus, now: number): string {
  const texts = t.statusText;
  switch (status.kind) {
    case "paused": {
      const reason = pauseReasons.find((name) => name === status.reason) ?? "manual";
      return reason === "manual" ? texts.paused : `${t.pauses[reason]} ${texts.paused}`;
    }
    case "hold":
      return texts.hold(f.until(status.until, now));
    case "circuit_open":
      return texts.circuit_open(f.until(status.until, now));
    case "failing":
      return texts.failing(f.count(status.failures), f.count(status.attempts));
    case "healthy":
      return texts.healthy(f.count(status.attempts - status.failures), f.count(status.attempts));
    default:
      return texts[status.kind];
  }
}

type Delivery = Pick<
  DeliveryJson,
  "state" | "attempts" | "reason" | "next_attempt_at" | "waiting_until" | "last_status" | "last_error"
> & { readonly log?: readonly unknown[] };

export function portalDeliveryText(look: PortalStyle, delivery: Delivery, now: number): StateText {
  const { t } = look;
  const label = t.log.states[delivery.state];
  return { tone: deliveryTone(delivery), label, text: capitalized(portalSentence(look, delivery, now)) };
}

function portalSentence(look: PortalStyle, delivery: Delivery, now: number): string {
  const { t, f } = look;
  const { state, reason = "" } = delivery;
  const made = attemptsMade(delivery);
  const why = reasonText(look, reason);
  switch (state) {
    case "queued":
      return reason === "" ? t.delivery.queued : why;
    case "waiting": {
      const until = timeOf(delivery.waiting_until, now);
      return until > now ? t.delivery.waitingUntil(why, f.until(until, now)) : why;
    }
    case "retrying": {
      if (reason === "in_flight") return t.delivery.inFlight;
      const at = timeOf(delivery.next_attempt_at, now);
      const number = f.count(made + 1);
      return at > now
        ? t.delivery.retrying(number, f.until(at, now), why)
        : t.delivery.retryingNow(number, why);
    }
    case "delivered":
      return made <= 1 ? t.delivery.delivered : t.delivery.deliveredAt(f.count(made));
    case "dead":
    case "cancelled":
      return why;
  }
}

function timeOf(iso: string | undefined, otherwise: number): number {
  return iso === undefined ? otherwise : Date.parse(iso);
}

/** A reason, or the cause of a failure: `http_503` as "HTTP 503". One without a text is spelled out. */
export function reasonText({ t }: PortalStyle, reason: string): string {
  const status = /^http_(\d{3})$/.exec(reason)?.[1];
  if (status !== undefined) return `HTTP ${status}`;
  return Object.hasOwn(t.reasons, reason)
    ? t.reasons[reason as keyof typeof t.reasons]
    : reason.replaceAll("_", " ");
}
export function portalResultText(look: PortalStyle, { status, error }: AttemptEnd): string {
  const http = status === undefined ? undefined : `HTTP ${status}`;
  if (error === undefined) return http ?? look.t.reasons.network;
  const why = reasonText(look, error);
  return http === undefined ? why : `${why} (${http})`;
}

/** The progress of a replay, and why it is slow. */
export function portalReplayText(
  { t, f }: PortalStyle,
  { reason, total, delivered, failed }: Replay,
): string {
  return [
    t.resend.progress(f.count(delivered), f.count(total)),
    failed > 0 && t.resend.failedAgain(f.count(failed)),
    reason !== null && reason in t.replayReason && t.replayReason[reason],
  ]
    .filter(Boolean)
    .join(", ");
}
