/** Where a delivery stands, in words: what is next or why it waits, and until when. Pure. */
import type { DeliveryJson } from "../api/delivery-schema.ts";
import type { Tone } from "./door-words.ts";
import { plural, spanOf, untilOf } from "./figures.ts";

export type DeliveryText = Readonly<{ tone: Tone; short: string; says: string }>;

type Shown = Pick<
  DeliveryJson,
  "state" | "reason" | "attempts" | "next_attempt_at" | "waiting_until" | "delivered_at" | "give_up_at"
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
