/**
 * The named retry policies: our default, six published designs, and two that users know. Each reproduces its source;
 * a table test compares every status and every wait with the published figures.
 *
 * Where a source contradicts a rule that holds for all presets, the rule wins: see classify.ts for 2xx, 3xx and 410,
 * transition.ts for Retry-After and for 429 without it. So the header that replaces the backoff in three sources does
 * so with a 429 only. Where a source is silent, the comment says what was chosen: 72 h for a missing age limit, a floor
 * for a Retry-After that it does not mention.
 */

import type { Delays, Jitter } from "./backoff.ts";
import type { StatusRules } from "./classify.ts";
import type { RetryPolicy } from "./transition.ts";

/** For a policy that only its age limit ends. Finite, so that it survives JSON. */
export const unlimitedAttempts = Number.MAX_SAFE_INTEGER;

export const presetNames = [
  "breakwater",
  "textbook",
  "gethook",
  "progressive",
  "exponential",
  "storm-safe",
  "capped",
  "standard-webhooks",
  "svix",
] as const;

export type PresetName = (typeof presetNames)[number];

const minute = 60;
const hour = 60 * minute;
const hourMs = hour * 1000;
/** The same for every preset: no source mentions deliveries without an attempt. */
const expireUnattemptedAfterMs = 14 * 24 * hourMs;

export const presets: Readonly<Record<PresetName, RetryPolicy>> = {
  // Chosen with the storm benchmark; the figures are in bench/storm/figures.md, the reasons in docs/retry-policies.md.
  //
  // Limits: with little traffic the gate's probes are attempts of the few deliveries there are, so any count of
  // attempts ends them long before their age does: with 16 attempts, 48 h down and one event an hour, 42 of 49 were
  // lost. So the age limit alone ends them. It is 74 h for an outage of 72 h, plus the longest wait and time to drain.
  //
  // Jitter: `equal`. Behind the gate all kinds perform alike (1 h down: 85 wasted attempts, peak 0.75 to 0.79; 503 for
  // 30 % of all requests: `full` wastes 2,462 attempts, `equal` 2,312). Where no circuit opens, a delivery that always
  // fails is attempted 105 times with `equal` and 154 times with `full`, some of them a second after the last.
  //
  // Statuses: a 4xx comes from a server that works, and no circuit opens for it. Statuses that may be temporary are
  // retried 16 times, about seven hours: 402 (an unpaid account), 404 (a deployment), 408, 409, 423 (locked), 425. Until
  // the age limit it would be 105 requests for each event to a server that means it. 405, 413 and 451 are about the
  // request, which is the same every time, and stay until somebody changes the receiver.
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
    // "404 retried, conservatively, then escalated": five attempts, half an hour at most.
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
    // Its longest wait is 8 h, jitter included. It also names full and decorrelated jitter.
    // Its eight attempts are over after 9 to 20 h, although it says 24 to 48 h; docs/retry-policies.md has the figures.
    // It retries 408, 429, 500, 502, 503 and 504. It is silent on the other 4xx and the rarer 5xx, which are retried.
    rules: { clientErrors: { permanent: [400, 401, 403, 404, 405] }, attemptLimits: {} },
    retryAfter: "instead",
  },
  // The default of the source of `progressive`. The eight attempts would all be over after an hour of these
  // waits, so only its 48 h limit applies.
  exponential: {
    delays: { base: 30, factor: 2, cap: 8 * hour },
    jitter: "full",
    maxAttempts: unlimitedAttempts,
    giveUpAfterMs: 48 * hourMs,
    expireUnattemptedAfterMs,
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
    // retry. It does not mention Retry-After.
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

const units = { s: 1, min: 60, h: 3600, d: 86_400 } as const;

/** In the largest unit that divides it. */
export function spanText(seconds: number): string {
  const [unit, size] = Object.entries(units).findLast(([, size]) => seconds % size === 0) ?? ["s", 1];
  return `${seconds / size} ${unit}`;
}

/** The presets as a table, read off the presets themselves, so that no page contradicts them. */
export const policyTableHead = [
  "Preset",
  "Waits before attempts 2, 3, …",
  "Jitter of a wait d",
  "Given up",
  "4xx that end a delivery",
  "Retried a limited number of times",
  "Retry-After",
] as const;

/** A row for each preset, its columns in the order of the head. */
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

/** What holds for every preset, as Markdown. */
export const commonRules: readonly string[] = [
  "Every 2xx is a success. A 3xx is never followed and ends the delivery. 410 ends it and pauses the destination.",
  "5xx, 429, a timeout, a refused connection, a name that does not resolve, a failed TLS handshake and a broken connection are retried.",
  "`Retry-After` counts on 429 and 503: nobody sends sooner, to the whole destination, for up to 30 days. A 429 without it waits twice as long. `retry.retry_after` decides whether that of a 429 replaces the wait (`instead`) or only lengthens it (`floor`).",
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
