/**
 * The retry policies that have a name: our default, five published designs, and two that users know.
 * Each reproduces its source; a table test holds every status and every wait to the published figures.
 *
 * Where a source contradicts a rule over all presets, the rule wins: see classify.ts for 2xx, 3xx and 410,
 * transition.ts for Retry-After and for 429 without it. So the header that replaces the backoff in three sources
 * does so with a 429 only. Where a source is silent, the comment says what was chosen: 72 h for an age limit that
 * it does not name, a floor for a Retry-After that it does not speak of.
 */

import type { Delays, Jitter } from "./backoff.ts";
import type { StatusRules } from "./classify.ts";
import type { RetryPolicy } from "./policy.ts";

/** For a policy that only its age limit ends. A number, and not Infinity, so that it survives JSON. */
export const unlimitedAttempts = Number.MAX_SAFE_INTEGER;

export const presetNames = [
  "breakwater",
  "textbook",
  "gethook",
  "progressive",
  "storm-safe",
  "capped",
  "standard-webhooks",
  "svix",
] as const;

export type PresetName = (typeof presetNames)[number];

const minute = 60;
const hour = 60 * minute;
const hourMs = hour * 1000;
/** The same with every preset: no source speaks of deliveries that nobody has tried. */
const expireUnattemptedAfterMs = 14 * 24 * hourMs;

export const presets: Readonly<Record<PresetName, RetryPolicy>> = {
  // Chosen by the storm lab; the figures are in test/bench/storm/figures.md, the reasons in docs/retry-policies.md.
  //
  // Limits: with little traffic the probes of the gate are attempts of the few deliveries there are, so that any count
  // of attempts ends them long before an age does: with 16, 48 h down and one event an hour lost 42 of 49. So the age
  // limit alone ends them. It is 74 h for an outage of 72: the longest wait comes on top, and the time to drain.
  //
  // Jitter: `equal`. Behind the gate all kinds do alike (1 h down: 85 attempts wasted, peak 0.75 to 0.79; 30 % of all
  // answers 503: `full` wastes 2,462, `equal` 2,312). Where no circuit opens, a delivery that fails throughout is
  // attempted 105 times with `equal` and 154 times with `full`, some of them a second after the last.
  //
  // Statuses: a 4xx comes from a server that is there, and no circuit opens for it. So those that may pass by
  // themselves are retried 16 times, about seven hours: 402 (an account that is not paid), 404 (a deployment), 408, 409,
  // 423 (locked), 425. Until the age limit it would be 105 requests for each event of a server that means it. 405, 413
  // and 451 judge a request that is the same every time, and stay until a person changes the receiver.
  breakwater: {
    delays: { base: 30, factor: 2, cap: hour },
    jitter: "equal",
    maxAttempts: unlimitedAttempts,
    giveUpAfterMs: 74 * hourMs,
    expireUnattemptedAfterMs,
    rules: {
      clientErrors: { retried: [402, 404, 408, 409, 423, 425, 429] },
      attemptLimits: { http_402: 16, http_404: 16, http_408: 16, http_409: 16, http_423: 16, http_425: 16 },
    },
    retryAfter: "floor",
  },
  textbook: {
    delays: { base: minute, factor: 2, cap: hour },
    jitter: "equal",
    maxAttempts: 16,
    giveUpAfterMs: 72 * hourMs,
    expireUnattemptedAfterMs,
    // "404 retried, conservatively, then escalated": five attempts, half an hour at the most.
    rules: { clientErrors: { permanent: [400, 401, 403, 410, 422] }, attemptLimits: { http_404: 5 } },
    retryAfter: "floor",
  },
  gethook: {
    delays: { schedule: [30, 2 * minute, 10 * minute, hour] },
    jitter: { proportional: 0.2 },
    maxAttempts: 5,
    giveUpAfterMs: 72 * hourMs,
    expireUnattemptedAfterMs,
    // "DNS a limited number of times": three. Silent on timeouts and the rarer 5xx, which are retried.
    rules: { clientErrors: { retried: [408, 429] }, attemptLimits: { dns: 3 } },
    retryAfter: "instead",
  },
  progressive: {
    delays: { schedule: [30, 2 * minute, 8 * minute, 32 * minute, 2 * hour, 8 * hour], cap: 8 * hour },
    jitter: { proportional: 0.5 },
    maxAttempts: 8,
    giveUpAfterMs: 48 * hourMs,
    expireUnattemptedAfterMs,
    // Its longest wait is 8 h, and no jitter takes it further. It names full and decorrelated jitter beside this one.
    // It retries 408, 429, 500, 502, 503 and 504; on the other 4xx and the rarer 5xx it is silent: they are retried.
    rules: { clientErrors: { permanent: [400, 401, 403, 404, 405] }, attemptLimits: {} },
    retryAfter: "instead",
  },
  "storm-safe": {
    delays: { base: 30, factor: 2, cap: hour },
    jitter: "full",
    maxAttempts: 5,
    giveUpAfterMs: 72 * hourMs,
    expireUnattemptedAfterMs,
    rules: { clientErrors: { retried: [429] }, attemptLimits: {} },
    retryAfter: "instead",
  },
  capped: {
    delays: { base: minute, factor: 2, cap: 15 * minute },
    jitter: "full",
    maxAttempts: unlimitedAttempts,
    giveUpAfterMs: 24 * hourMs,
    expireUnattemptedAfterMs,
    // It says "until its window ends" and not when: a day here. Full jitter is one of the two kinds that it names.
    // "Most 4xx" are permanent, and it does not say which are not: here the three by which HTTP itself invites a
    // repeat. It does not speak of Retry-After.
    rules: { clientErrors: { retried: [408, 425, 429] }, attemptLimits: {} },
    retryAfter: "floor",
  },
  "standard-webhooks": {
    delays: {
      schedule: [5, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour],
    },
    // The specification asks for jitter and names none; its waits alone add up to 75 h 35 min.
    jitter: { proportional: 0.2 },
    maxAttempts: 10,
    giveUpAfterMs: 120 * hourMs,
    expireUnattemptedAfterMs,
    rules: { clientErrors: { permanent: [410] }, attemptLimits: {} },
    retryAfter: "floor",
  },
  svix: {
    delays: { schedule: [5, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour] },
    jitter: { proportional: 0.2 },
    maxAttempts: 8,
    giveUpAfterMs: 72 * hourMs,
    expireUnattemptedAfterMs,
    rules: { clientErrors: { permanent: [410] }, attemptLimits: {} },
    retryAfter: "floor",
  },
};

// §§ The presets as a table for people: which status is retried, how long each waits, what it does with Retry-After.
// Read off the presets themselves, so that no page can say anything else. Pure.

const units = { s: 1, min: 60, h: 3600, d: 86_400 } as const;

/** In the largest unit that leaves nothing over. */
export function spanText(seconds: number): string {
  const [unit, size] = Object.entries(units).findLast(([, size]) => seconds % size === 0) ?? ["s", 1];
  return `${seconds / size} ${unit}`;
}

export const policyTableHead = [
  "Preset",
  "Waits before attempts 2, 3, …",
  "Jitter of a wait d",
  "Given up",
  "4xx that end a delivery",
  "Retried a limited number of times",
  "Retry-After",
] as const;

/** A row for each preset, in the order of the head. */
export function policyTable(): readonly (readonly string[])[] {
  return presetNames.map((name) => {
    const { delays, jitter, rules, retryAfter } = presets[name];
    const cells = [
      waitsText(delays),
      jitterText(jitter, delays),
      endText(presets[name]),
      permanentText(rules),
    ];
    return [name, ...cells, limitedText(rules), retryAfterText(retryAfter)];
  });
}

/** What holds for every preset; backticks are for code. */
export const commonRules: readonly string[] = [
  "Every 2xx is a success. A 3xx is never followed and ends the delivery. 410 ends it and pauses the destination.",
  "5xx, 429, a timeout, a refused connection, a name that does not resolve and a broken connection are retried.",
  "`Retry-After` counts on 429 and 503: nobody sends sooner, to the whole destination, for up to 30 days. A 429 without it waits twice as long.",
  "Both limits hold: attempts, and the time since the first attempt (`give_up_after`). A delivery that has not been attempted, because of a pause, a hold or an open circuit, has `expire_unattempted_after`: 14 days.",
  '`retry.on` decides about single statuses from 400 to 599 but 410: `{"on": {"retry": [400], "fail": [503]}}`.',
];

function waitsText(delays: Delays): string {
  if ("schedule" in delays) return `${delays.schedule.map(spanText).join(", ")}; the last repeats`;
  return `${spanText(delays.base)}, each × ${delays.factor}, at most ${spanText(delays.cap)}`;
}

function jitterText(jitter: Jitter, delays: Delays): string {
  if (typeof jitter === "object") {
    const most = "schedule" in delays && delays.cap ? `, at most ${spanText(delays.cap)}` : "";
    return `± ${100 * jitter.proportional} %${most}`;
  }
  const spread = { full: "from 0 to d", equal: "from d/2 to d", none: "none", decorrelated: "decorrelated" };
  return spread[jitter];
}

function endText({ maxAttempts, giveUpAfterMs }: RetryPolicy): string {
  const age = `${giveUpAfterMs / 3_600_000} h`;
  return maxAttempts === unlimitedAttempts ? `after ${age}` : `after ${maxAttempts} attempts or ${age}`;
}

function permanentText({ clientErrors }: StatusRules): string {
  if ("retried" in clientErrors) return `every one but ${clientErrors.retried.join(", ")}`;
  return [...new Set([...clientErrors.permanent, 410])].sort((a, b) => a - b).join(", ");
}

function limitedText({ attemptLimits }: StatusRules): string {
  const limited = Object.entries(attemptLimits).map(([cause, most]) => [causeText(cause), most] as const);
  const counts = [...new Set(limited.map(([, most]) => most))];
  const causesOf = (count: number | undefined) =>
    limited.filter(([, most]) => most === count).map(([c]) => c);
  return counts.map((count) => `${causesOf(count).join(", ")}: ${count} attempts`).join("; ") || "–";
}

function causeText(cause: string): string {
  return cause === "dns" ? "no such name" : cause.replace("http_", "");
}

function retryAfterText(retryAfter: RetryPolicy["retryAfter"]): string {
  const longer = "the longer of it and the wait";
  return retryAfter === "floor" ? longer : `429: instead of the wait; 503: ${longer}`;
}
