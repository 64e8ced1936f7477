/**
 * The retry policies that have a name: our default, five published designs, and two that users know.
 * Each reproduces its source; a table test holds every status and every wait to the published figures.
 *
 * Where a source contradicts a rule over all presets, the rule wins: see outcome.ts for 2xx, 3xx and 410,
 * transition.ts for Retry-After and for 429 without it. So the header that replaces the backoff in three sources
 * does so with a 429 only. Where a source is silent, the comment says what was chosen: 72 h for an age limit that
 * it does not name, a floor for a Retry-After that it does not speak of.
 */
import { type RetryPolicy, unlimitedAttempts } from "./retry-policy.ts";

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
