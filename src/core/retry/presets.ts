/**
 * The named retry policies: Breakwater's default, six published designs, and two that users know. Each reproduces its
 * source; a table test compares every status and every wait with the published figures.
 *
 * Where a source contradicts a rule that holds for all presets, the rule wins: see classify.ts for 2xx, 3xx and 410,
 * transition.ts for Retry-After and for 429 without it. So the header that replaces the backoff in three sources does
 * so with a 429 only. Where a source is silent, the comment says what was chosen: 72 h for a missing age limit, a floor
 * for a Retry-After that it does not mention.
 */

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
const sources: Readonly<Record<PresetName, Omit<RetryPolicy, "expireUnattemptedAfterMs">>> = {
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
  // retried 16 times, about seven hours: 402 (an unpaid account), 404 (a deployment), 408, 409, 423 (locked), 425.
  // Until the age limit it would be 105 requests for each event to a server that means it. 405, 413 and 451 are about
  // the request, which is the same every time, and stay until the receiver is changed.
  breakwater: {
    delays: { base: 30, factor: 2, cap: hour },
    jitter: "equal",
    maxAttempts: unlimitedAttempts,
    giveUpAfterMs: 74 * hourMs,
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
    // "404 retried, conservatively, then escalated": five attempts, half an hour at most.
    rules: { clientErrors: { permanent: [400, 401, 403, 410, 422] }, attemptLimits: { http_404: 5 } },
    retryAfter: "floor",
  },
  gethook: {
    delays: { schedule: [30, 2 * minute, 10 * minute, hour] },
    jitter: { proportional: 0.2 },
    maxAttempts: 5,
    giveUpAfterMs: 72 * hourMs,
    // "DNS a limited number of times": three. Silent on timeouts and the rarer 5xx, which are retried.
    rules: { clientErrors: { retried: [408, 429] }, attemptLimits: { dns: 3 } },
    retryAfter: "instead",
  },
  progressive: {
    delays: { schedule: [30, 2 * minute, 8 * minute, 32 * minute, 2 * hour, 8 * hour], cap: 8 * hour },
    jitter: { proportional: 0.5 },
    maxAttempts: 8,
    giveUpAfterMs: 48 * hourMs,
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
    rules: { clientErrors: { permanent: [400, 401, 403, 404, 405] }, attemptLimits: {} },
    retryAfter: "instead",
  },
  "storm-safe": {
    delays: { base: 30, factor: 2, cap: hour },
    jitter: "full",
    maxAttempts: 5,
    giveUpAfterMs: 72 * hourMs,
    rules: { clientErrors: { retried: [429] }, attemptLimits: {} },
    retryAfter: "instead",
  },
  capped: {
    delays: { base: minute, factor: 2, cap: 15 * minute },
    jitter: "full",
    maxAttempts: unlimitedAttempts,
    giveUpAfterMs: 24 * hourMs,
    // It says "until its window ends" without naming it: a day here. Full jitter is one of the two kinds that it names.
    // "Most 4xx" are permanent, and it does not say which are not: here the three by which HTTP itself invites a retry.
    // It does not mention Retry-After.
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
    rules: { clientErrors: { permanent: [410] }, attemptLimits: {} },
    retryAfter: "floor",
  },
  svix: {
    delays: { schedule: [5, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour] },
    jitter: { proportional: 0.2 },
    maxAttempts: 8,
    giveUpAfterMs: 72 * hourMs,
    rules: { clientErrors: { permanent: [410] }, attemptLimits: {} },
    retryAfter: "floor",
  },
};

/** No source mentions deliveries without an attempt. */
const expireUnattemptedAfterMs = 14 * 24 * hourMs;

export const presets = Object.fromEntries(
  Object.entries(sources).map(([name, source]) => [name, { ...source, expireUnattemptedAfterMs }]),
) as Readonly<Record<PresetName, RetryPolicy>>;
