/**
 * The state of a destination's door in words: what it does, until when, and what made it so. Pure, because
 * "why is it waiting?" is the question that this whole dashboard is there to answer.
 */

import type { DeliveryJson } from "../api/deliveries.ts";
import type { GateView } from "../core/gate-view.ts";
import { decimalOf, plural, spanOf, untilOf } from "./format.ts";

/** How it looks at a glance. `quiet`: nothing happens, and nothing is wrong. */
export type Tone = "good" | "busy" | "warn" | "bad" | "quiet";

export type StatusText = Readonly<{
  tone: Tone;
  /** One or two words, for a table: "Open", "Circuit open". */
  short: string;
  /** "Open for probing in 42 s". */
  says: string;
  /** What made it so: "12 of 20 attempts failed in the last minute". */
  reason?: string;
  /** What to know or to do about it: a sentence of its own. */
  hint?: string;
}>;

export type CircuitStatus = Readonly<{
  status: "active" | "paused";
  statusReason: string | null;
  maxConcurrency: number;
  /** Undefined when the gate cannot be reached. */
  view: GateView | undefined;
}>;

export function statusText(
  { status, statusReason, maxConcurrency, view }: CircuitStatus,
  now: number,
): StatusText {
  if (status === "paused") return pausedWords(statusReason);
  if (view === undefined) return unreachable;
  return shutWords(view, now) ?? openWords(view, maxConcurrency, now);
}

const held = "What is posted meanwhile waits, and is sent when it is resumed.";

/** What pauses a destination besides its owner. */
const failureStreak: Readonly<Record<string, string>> = {
  gone: "the receiver answered 410 Gone",
  rejecting: "the receiver refused more than a hundred deliveries in a row",
  failing: "nothing was delivered for five days",
};

/** Why it was paused, to follow that it was: "because the receiver answered 410 Gone", "by hand". */
export function pauseText(reason: string): string {
  return reason === "manual" ? "by hand" : `because ${causeOf(reason)}`;
}

function causeOf(reason: string): string {
  return failureStreak[reason] ?? reason.replaceAll("_", " ");
}

function pausedWords(reason: string | null): StatusText {
  if (reason === null || reason === "manual") {
    return { tone: "quiet", short: "Paused", says: "Paused by hand", hint: held };
  }
  const says = "Paused until somebody resumes it";
  return { tone: "bad", short: "Paused", says, reason: causeOf(reason), hint: held };
}

const unreachable: StatusText = {
  tone: "warn",
  short: "Unknown",
  says: "Its gate does not answer at the moment",
  hint: "Deliveries wait until it does.",
};

function shutWords(view: GateView, now: number): StatusText | undefined {
  const { circuitUntil, heldUntil } = view;
  if (heldUntil !== null && heldUntil > now && heldUntil >= (circuitUntil ?? 0))
    return holdWords(heldUntil, now);
  if (circuitUntil !== null) return circuitWords(view, circuitUntil, now);
  if (view.circuit !== "half_open") return undefined;
  return {
    tone: "warn",
    short: "Probing",
    says: "Probing: one attempt at a time is testing the ground",
    reason: openings(view.trips),
    hint: "A success opens the door, beginning with one attempt at a time; a failure shuts it for longer.",
  };
}

function holdWords(until: number, now: number): StatusText {
  return {
    tone: "warn",
    short: "On hold",
    says: `On hold for ${untilOf(until, now)}`,
    reason: "the receiver asked for quiet with Retry-After",
    hint: "Nobody asks it before that time, unless a person ends the hold. Traffic then begins with one attempt at a time.",
  };
}

function circuitWords(view: GateView, until: number, now: number): StatusText {
  const failures = failuresLately(view, now);
  return {
    tone: "bad",
    short: "Circuit open",
    says: `Open for probing in ${untilOf(until, now)}`,
    reason: failures ?? openings(view.trips),
    hint: `${failures ? `${sentence(openings(view.trips))} ` : ""}What is due meanwhile waits and uses up no attempt.`,
  };
}

const MINUTE_MS = 60_000;

/** What the newest failures looked like, as the reason of an opening; undefined when they are long past. */
function failuresLately({ minutes }: GateView, now: number): string | undefined {
  const last = minutes.findLast(({ troubled }) => troubled > 0);
  if (last === undefined) return undefined;
  const attempts = last.first + last.retries;
  if (attempts === 1) return "the last attempt failed";
  const when = now - last.from <= MINUTE_MS ? "in the last minute" : "before it opened";
  return `${last.troubled} of ${plural(attempts, "attempt")} failed ${when}`;
}

function openings(trips: number): string {
  return trips <= 1 ? "the circuit opened once" : `the circuit opened ${trips} times in a row`;
}

function openWords(view: GateView, maxConcurrency: number, now: number): StatusText {
  const { traffic, window, refusal } = view;
  if (traffic.storm) return stormWords(traffic.retryRatio);
  if (refusal?.reason === "rate") {
    return {
      tone: "busy",
      short: "Open",
      says: "Open, at the rate that it is allowed",
      ...until(refusal, now),
    };
  }
  const attempts = traffic.first + traffic.retries;
  if (attempts === 0)
    return { tone: "quiet", short: "Idle", says: "Open; nothing was sent in the last 15 minutes" };
  const reason = succeeded(attempts, traffic.failures);
  if (traffic.failures * 2 > attempts)
    return { tone: "warn", short: "Failing", says: "Open, but failing", reason };
  if (window < maxConcurrency && traffic.failures > 0) {
    const says = `Open, and widening: ${window} of ${maxConcurrency} at once`;
    return { tone: "busy", short: "Widening", says, reason };
  }
  return { tone: "good", short: "Open", says: "Open", reason };
}

function stormWords(retryRatio: number): StatusText {
  return {
    tone: "bad",
    short: "Storm",
    says: "Open, but in a retry storm",
    reason: `${decimalOf(retryRatio)} retries for each first attempt in the last 15 minutes`,
  };
}

function succeeded(attempts: number, failures: number): string {
  const well =
    failures === 0
      ? attempts === 1
        ? "the one"
        : `all ${attempts}`
      : `${attempts - failures} of ${attempts}`;
  return `${well} ${attempts === 1 ? "attempt" : "attempts"} of the last 15 minutes succeeded`;
}

function until({ until: at }: { until: number | null }, now: number) {
  return at === null ? {} : { hint: `The next may start in ${untilOf(at, now)}.` };
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

// §§ Where a delivery stands, in words: what is next or why it waits, and until when. Pure.

export type DeliveryText = Readonly<{ tone: Tone; short: string; says: string }>;

type Shown = { readonly reason?: string | undefined } & Pick<
  DeliveryJson,
  "state" | "attempts" | "next_attempt_at" | "waiting_until" | "delivered_at" | "give_up_at"
>;

/** @param acceptedAt epoch ms, of the event */
export function deliveryText(delivery: Shown, acceptedAt: number, now: number): DeliveryText {
  switch (delivery.state) {
    case "queued":
      return { tone: "busy", short: "Queued", says: "On its way to its first attempt" };
    case "waiting":
      return {
        tone: shut.includes(delivery.reason ?? "") ? "warn" : "busy",
        short: "Waiting",
        says: `Waits ${waitWords(delivery, now)}`,
      };
    case "retrying":
      return { tone: "busy", short: "Retrying", says: retryWords(delivery, now) };
    case "delivered":
      return { tone: "good", short: "Delivered", says: deliveredWords(delivery, acceptedAt) };
    case "dead":
      return { tone: "bad", short: "Dead", says: `Given up: ${deadWords(delivery)}` };
    case "cancelled":
      return { tone: "quiet", short: "Cancelled", says: "Cancelled: its destination was deleted" };
  }
}

/** Why a door is shut altogether; else it is only a matter of turns. */
const shut: readonly string[] = ["paused", "hold", "circuit_open"];

/** Follows "waits". */
export const reasons: Readonly<Record<string, string>> = {
  paused: "because its destination is paused",
  hold: "because the receiver asked for quiet",
  circuit_open: "because the destination's circuit is open",
  probing: "while one attempt is testing the ground",
  concurrency: "because as many attempts are under way as there may be",
  rate: "because the destination's rate is used up",
  slow: "its turn: the destination is slow, and is served aside so that it delays nobody",
  recovered: "to be brought again: it was lost on its way",
  retried: "its turn to be tried again, as somebody asked",
  replayed: "its turn in a replay",
  sealed: "because the key that its signing secret is sealed with is missing here",
  unresolved: "because its destination's name could not be looked up",
  forbidden_address: "because its destination's name leads to a private address",
  scheduled: "for the time that it was scheduled for",
};

function waitWords({ reason = "", waiting_until }: Shown, now: number): string {
  const why = reasons[reason] ?? `(${reason.replaceAll("_", " ")})`;
  if (reason === "paused") return `${why}, until somebody resumes it`;
  const until = waiting_until === undefined ? now : Date.parse(waiting_until);
  return until > now ? `${why}, for ${untilOf(until, now)} more` : why;
}

function retryWords({ reason = "", attempts, next_attempt_at }: Shown, now: number): string {
  if (reason === "in_flight") return "Sent; there is no answer yet";
  const at = next_attempt_at === undefined ? now : Date.parse(next_attempt_at);
  const when = at > now ? `in ${untilOf(at, now)}` : "due now";
  return `Attempt ${attempts + 1} ${when}: the last one came to ${causeText(reason)}`;
}

function deliveredWords({ attempts, delivered_at }: Shown, acceptedAt: number): string {
  const tries = attempts === 1 ? "at the first attempt" : `at attempt ${attempts}`;
  return delivered_at === undefined
    ? `Delivered ${tries}`
    : `Delivered ${tries}, ${spanOf(Date.parse(delivered_at) - acceptedAt)} after it was accepted`;
}

function deadWords({ reason = "", attempts }: Shown): string {
  const after = `after ${plural(attempts, "attempt")}`;
  const words: Readonly<Record<string, string>> = {
    permanent: `the receiver refused it for good ${after}`,
    gone: "the receiver answered 410 Gone",
    exhausted: `all ${plural(attempts, "attempt")} failed`,
    expired: `its time was over ${after}`,
    forbidden_target: "its URL may not be called from here",
    event_removed: "somebody removed the event",
    corrupt: "what is stored of the event is damaged",
    poison: "it could not be processed",
  };
  return words[reason] ?? `${reason.replaceAll("_", " ")} ${after}`;
}

/** A cause as the machine names it, for people: `http_503` as "HTTP 503". */
export function causeText(cause: string): string {
  const words: Readonly<Record<string, string>> = {
    timeout: "a timeout",
    connection_lost: "a lost connection",
    refused: "a refused connection",
    dns: "a name that does not resolve",
    network: "a network error",
  };
  return words[cause] ?? cause.replace(/^http_/, "HTTP ").replaceAll("_", " ");
}
