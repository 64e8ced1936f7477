/**
 * The state of a destination and of a delivery in words: what happens now, until when, and for what reason. Pure,
 * because "why is it waiting?" is the question that the whole dashboard is there to answer. Times in epoch ms.
 */

import {
  type DestinationNow,
  type DestinationStatus,
  destinationStatus,
} from "../../core/destination-status.ts";
import type { DeliveryJson } from "../../features/deliveries/schema.ts";
import { decimalOf, durationOf, plural, untilOf } from "./format.ts";

/** The colour of a state. `quiet`: nothing happens, and nothing is wrong. */
export type Tone = "good" | "busy" | "warn" | "bad" | "quiet";

export type StatusText = Readonly<{
  tone: Tone;
  /** One or two words, for a table: "Healthy", "Circuit open". */
  label: string;
  /** "Circuit open, next probe in 42 s". */
  text: string;
  /** "12 of 20 attempts in the last 15 minutes failed". */
  reason?: string;
  /** Its consequences, or the remedy: whole sentences. */
  hint?: string;
  /** How long its deliveries wait, for a table: "next probe in 42 s". Absent if nothing makes them wait. */
  until?: string;
}>;

const tones: Readonly<Record<DestinationStatus["kind"], Tone>> = {
  paused: "quiet",
  unknown: "warn",
  hold: "warn",
  circuit_open: "bad",
  probing: "warn",
  storm: "bad",
  rate_limited: "busy",
  idle: "quiet",
  failing: "warn",
  recovering: "busy",
  healthy: "good",
};

/** An automatic pause is a failure. */
export function statusTone(status: DestinationStatus): Tone {
  const isOurs = status.kind === "paused" && status.reason !== null && status.reason !== "manual";
  return isOurs ? "bad" : tones[status.kind];
}

export function statusText(destination: DestinationNow, now: number): StatusText {
  const status = destinationStatus(destination, now);
  return { tone: statusTone(status), ...statusWords(status, destination, now) };
}

type StatusWords = Omit<StatusText, "tone">;

function statusWords(status: DestinationStatus, destination: DestinationNow, now: number): StatusWords {
  switch (status.kind) {
    case "paused":
      return pausedText(status.reason);
    case "unknown":
      return {
        label: "Unknown",
        text: "The gate of this destination is not responding",
        until: "until its gate responds",
        hint: "Deliveries wait in the backlog until it does.",
      };
    case "hold":
      return {
        label: "On hold",
        text: `On hold for ${untilOf(status.until, now)}`,
        reason: "the receiver sent Retry-After",
        until: `for another ${untilOf(status.until, now)}`,
        hint: `No request is sent before then unless you clear the hold. Afterwards ${gradualStart}.`,
      };
    case "circuit_open":
      return circuitText(status, now);
    case "probing":
      return {
        label: "Probing",
        text: "Probing with one attempt at a time",
        reason: openings(status.trips),
        until: "until the probe has succeeded",
        hint: `If the probe succeeds the circuit closes and ${gradualStart}; if it fails the circuit opens for longer.`,
      };
    case "storm": {
      const reason = `a retry ratio of ${decimalOf(status.retryRatio)} in the last 15 minutes`;
      return { label: "Retry storm", text: "Sending, but in a retry storm", reason };
    }
    case "rate_limited": {
      const next = status.until === null ? undefined : `next attempt in ${untilOf(status.until, now)}`;
      return {
        label: "Rate limited",
        text: "Sending at the destination's rate limit",
        ...(next !== undefined && { hint: `${capitalized(next)}.`, until: next }),
      };
    }
    case "idle":
      return { label: "Idle", text: "Idle; nothing was sent in the last 15 minutes" };
    case "failing":
      return { label: "Failing", text: "Failing", reason: successes(status) };
    case "recovering": {
      const text = `Recovering, with ${status.window} of ${plural(destination.maxConcurrency, "concurrent attempt")} allowed`;
      return { label: "Recovering", text, reason: successes(status) };
    }
    case "healthy":
      return { label: "Healthy", text: "Healthy", reason: successes(status) };
  }
}

function pausedText(reason: string | null): StatusWords {
  return {
    label: "Paused",
    ...(reason === null || reason === "manual"
      ? { text: "Paused manually" }
      : { text: "Paused until you resume it", reason: disableReasonText(reason) }),
    until: "until you resume it",
    hint: "New events join the backlog, which is sent after you resume the destination.",
  };
}

/** Why a destination was paused, to follow "paused": "because the receiver answered 410 Gone", "manually". */
export function pauseText(reason: string): string {
  return reason === "manual" ? "manually" : `because ${disableReasonText(reason)}`;
}

function disableReasonText(reason: string): string {
  const texts: Readonly<Record<string, string>> = {
    gone: "the receiver answered 410 Gone",
    rejecting: "the receiver rejected more than a hundred deliveries in a row",
    failing: "nothing was delivered for five days",
    transform_failing: "its transformation failed for more than forty deliveries",
  };
  return texts[reason] ?? spelledOut(reason);
}

/** The status, or that keys are held by deliveries that are dead, where nothing else needs attention. */
export function withHeld(own: StatusText, keys: number): StatusText {
  const isCalm = own.tone !== "bad" && own.tone !== "warn";
  return isCalm && keys > 0 ? heldText(keys) : own;
}

function heldText(keys: number): StatusText {
  const isOne = keys === 1;
  return {
    tone: "warn",
    label: isOne ? "Key held" : "Keys held",
    text: `Sending, but ${isOne ? "one key is" : `${keys} keys are`} held`,
    reason: `${isOne ? "its first delivery is" : "their first deliveries are"} dead`,
    until: `until ${isOne ? "it is" : "they are"} retried or skipped`,
    hint: "Events with the same key wait behind the dead delivery: retry or skip it.",
  };
}

type OpenCircuit = Extract<DestinationStatus, { kind: "circuit_open" }>;

function circuitText({ until, trips, last }: OpenCircuit, now: number): StatusWords {
  const failures = last && failuresOf(last);
  return {
    label: "Circuit open",
    text: `Circuit open, next probe in ${untilOf(until, now)}`,
    reason: failures ?? openings(trips),
    until: `next probe in ${untilOf(until, now)}`,
    hint: `${failures ? `${capitalized(openings(trips))}. ` : ""}Deliveries that come due meanwhile wait in the backlog and use up no attempts.`,
  };
}

const gradualStart = "sending restarts with one attempt at a time";

function failuresOf({ attempts, failures }: NonNullable<OpenCircuit["last"]>): string {
  if (attempts === 1) return "the one attempt in the last 15 minutes failed";
  return `${failures} of ${attempts} attempts in the last 15 minutes failed`;
}

function openings(trips: number): string {
  return trips <= 1 ? "the circuit opened once" : `the circuit opened ${trips} times in a row`;
}

function successes({ attempts, failures }: Readonly<{ attempts: number; failures: number }>): string {
  if (attempts === 1)
    return `the one attempt in the last 15 minutes ${failures === 0 ? "succeeded" : "failed"}`;
  const some = failures === 0 ? `all ${attempts}` : `${attempts - failures} of ${attempts}`;
  return `${some} attempts in the last 15 minutes succeeded`;
}

/** A state in one or two words, and in a sentence. */
export type StateText = Readonly<{ tone: Tone; label: string; text: string }>;

type Delivery = {
  readonly reason?: string | undefined;
  readonly group?: string | undefined;
  readonly log?: readonly unknown[];
} & Pick<
  DeliveryJson,
  "state" | "attempts" | "next_attempt_at" | "waiting_until" | "delivered_at" | "give_up_at"
>;

/** Reasons that need action by an operator or by the receiver. */
const BLOCKED = ["paused", "hold", "circuit_open", "order_held"];

export function deliveryTone({ state, reason = "" }: Pick<Delivery, "state" | "reason">): Tone {
  if (state === "delivered") return "good";
  if (state === "dead") return "bad";
  if (state === "cancelled") return "quiet";
  return BLOCKED.includes(reason) ? "warn" : "busy";
}

/** @param acceptedAt when the event was accepted */
export function deliveryText(delivery: Delivery, acceptedAt: number, now: number): StateText {
  const text = deliverySentence(delivery, acceptedAt, now);
  return { tone: deliveryTone(delivery), label: capitalized(delivery.state), text };
}

function deliverySentence(delivery: Delivery, acceptedAt: number, now: number): string {
  switch (delivery.state) {
    case "queued":
      return delivery.reason === undefined ? "Queued for the first attempt" : waitingText(delivery, now);
    case "waiting":
      return waitingText(delivery, now);
    case "retrying":
      return retryingText(delivery, now);
    case "delivered":
      return deliveredText(delivery, acceptedAt);
    case "dead":
      return `Given up: ${deadText(delivery)}`;
    case "cancelled":
      return `Cancelled: ${cancelledText(delivery)}`;
  }
}

/** Why a delivery waits; follows "waiting". */
const reasons: Readonly<Record<string, string>> = {
  paused: "because the destination is paused",
  hold: "because the destination is on hold: the receiver sent Retry-After",
  circuit_open: "because the destination's circuit is open",
  probing: "while one attempt probes the destination",
  concurrency: "because the destination is at capacity",
  rate: "because the destination is rate limited",
  slow: "for its turn: the destination is slow, so its backlog is sent separately and delays no other destination",
  crash_loop:
    "because sending to the destination has crashed Workers: its deliveries are sent separately, a few at a time",
  group: "for its turn: the receiver's shared limit applies",
  recovered: "to be sent again: it was lost on the way",
  retried: "to be sent again, as requested",
  replayed: "for its turn in a replay",
  order: "for an earlier event with the same key",
  order_held: "until an earlier event with the same key, which is dead, is retried or skipped",
  sealed: "because the key that encrypts the destination's secrets is missing",
  unresolved: "because the destination's host name cannot be resolved",
  forbidden_address: "because the destination's host name resolves to a private address",
  token_unavailable:
    "because the token endpoint returns no access token. Send a test event to see its answer",
  token_refused: "because the token endpoint refuses the client. Send a test event to see its answer",
  unbound:
    "because the deployment does not have the destination's binding, or does not allow it to its tenant",
  transform_failed: "because the transformation fails for it",
  scheduled: "for its scheduled time",
};

function waitingText({ reason = "", waiting_until, group }: Delivery, now: number): string {
  const of = group === undefined ? "" : ` (group ${group})`;
  const text = `Waiting ${reasons[reason] ?? `(${spelledOut(reason)})`}${of}`;
  if (reason === "paused") return `${text}, until you resume it`;
  const until = waiting_until === undefined ? now : Date.parse(waiting_until);
  return until > now ? `${text}, for another ${untilOf(until, now)}` : text;
}

function retryingText(delivery: Delivery, now: number): string {
  const { reason = "", next_attempt_at } = delivery;
  if (reason === "in_flight") return "Sent; no response yet";
  const at = next_attempt_at === undefined ? now : Date.parse(next_attempt_at);
  const when = at > now ? `in ${untilOf(at, now)}` : "due now";
  const hint = causeHint(reason);
  return `Attempt ${attemptsMade(delivery) + 1} ${when}; the last one failed: ${causeText(reason)}${hint ? `. ${hint}` : ""}`;
}

/** All attempts of a delivery, also those before it was sent again: the API starts counting again from there. */
export function attemptsMade({ attempts, log = [] }: Pick<Delivery, "attempts" | "log">): number {
  return Math.max(attempts, log.length);
}

function deliveredText(delivery: Delivery, acceptedAt: number): string {
  const { delivered_at } = delivery;
  const attempts = attemptsMade(delivery);
  const at = attempts === 1 ? "the first attempt" : `attempt ${attempts}`;
  const text = attempts > delivery.attempts ? `Sent again, and delivered at ${at}` : `Delivered at ${at}`;
  if (delivered_at === undefined) return text;
  return `${text}, ${durationOf(Date.parse(delivered_at) - acceptedAt)} after it was accepted`;
}

function deadText(delivery: Delivery): string {
  const { reason = "", attempts } = delivery;
  const since = attemptsMade(delivery) > attempts ? " since it was sent again" : "";
  const after = `after ${plural(attempts, "attempt")}${since}`;
  const texts: Readonly<Record<string, string>> = {
    permanent: `the receiver rejected it permanently ${after}`,
    gone: "the receiver answered 410 Gone",
    exhausted: attempts === 1 ? `the only attempt${since} failed` : `all ${attempts} attempts${since} failed`,
    expired: `it expired ${after}`,
    forbidden_target: "requests to its URL are not allowed",
    too_large: "it is too large for a message of the destination's queue",
    event_removed: "the event was deleted",
    corrupt: "the stored event is damaged",
    poison: "it could not be processed",
  };
  return texts[reason] ?? `${spelledOut(reason)} ${after}`;
}

function cancelledText({ reason = "" }: Delivery): string {
  const texts: Readonly<Record<string, string>> = {
    destination_deleted: "the destination was deleted",
    cancelled_by_request: "by request",
    erased: "the content of the event was erased",
    event_removed: "the event was removed",
  };
  return texts[reason] ?? spelledOut(reason);
}

/** Why an attempt failed: `http_503` as "HTTP 503". */
export function causeText(cause: string): string {
  const texts: Readonly<Record<string, string>> = {
    timeout: "timeout",
    connection_lost: "connection lost",
    refused: "connection refused",
    dns: "host name not resolved",
    tls: "TLS handshake or certificate failed",
    network: "network error",
    challenged: "challenged by a firewall",
    token_unavailable: "access token refused, and the token endpoint returned no other",
    token_refused: "access token refused, and the token endpoint refuses the client",
  };
  return texts[cause] ?? spelledOut(cause.replace(/^http_/, "HTTP "));
}

/** The result of an attempt, as far as there was an answer. */
export type AttemptEnd = Readonly<{ status?: number | undefined; error?: string | undefined }>;

/** Where Cloudflare's edge responded in the receiver's place, the error says more than the status. */
export function resultText({ status, error }: AttemptEnd): string {
  if (status === undefined) return capitalized(causeText(error ?? "no response"));
  return error === undefined ? `HTTP ${status}` : `${capitalized(causeText(error))} (HTTP ${status})`;
}

/** Where Cloudflare's edge responded in the receiver's place, the error says more than the status. */
export function lastResponseText(
  { last_status: status, last_error: error }: Pick<DeliveryJson, "last_status" | "last_error">,
  causeOf = causeText,
): string | number {
  return error === undefined || error.startsWith("http_") ? (status ?? "–") : causeOf(error);
}

/** Statuses that the guide explains one by one. */
const STATUSES_EXPLAINED = [
  400, 401, 403, 404, 405, 406, 410, 411, 412, 413, 415, 417, 422, 426, 428, 429, 431, 451,
];

/** The place in /docs with the remedy for the reason for which a delivery waits or is retried. */
export function remedyAnchor(reason: string | undefined): string {
  if (reason === undefined) return "troubleshooting";
  const isStatus = reason.startsWith("http_") && !STATUSES_EXPLAINED.includes(Number(reason.slice(5)));
  return `reason-${isStatus ? "http_500" : reason}`;
}

/** The remedy for a failure that no retry fixes, as a sentence; undefined if the cause is clear by itself. */
export function causeHint(cause: string | undefined): string | undefined {
  return cause === "challenged"
    ? "Allow the sender in the receiver's WAF: skip challenges for the webhook's path."
    : undefined;
}

/** A reason that this page does not know yet: "new_reason" as "new reason". */
function spelledOut(reason: string): string {
  return reason.replaceAll("_", " ");
}

export function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
