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
  // Chosen by the storm lab. Behind the gate the presets hardly differ while many wait (1 h down: 86 attempts wasted
  // with each, nothing lost). What is left to them are few deliveries and a long outage, and 6 h down with 60
  // deliveries tells them apart: this one loses none (`gethook` 50, `storm-safe` 57), and the median comes after
  // 3.2 h, half of the outage (`progressive` 9.1 h, `svix` and `standard-webhooks` 7.0 h). `textbook` and `capped`
  // are as good there; this one begins at half their wait, and goes on for 72 h where `capped` ends after 24 h.
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
    // "404 retried, conservatively, then escalated": five attempts, half an hour at the most.
    expireUnattemptedAfterMs,
    rules: { clientErrors: { permanent: [400, 401, 403, 410, 422] }, attemptLimits: { http_404: 5 } },
    retryAfter: "floor",
  },
  gethook: {
    delays: { schedule: [30, 2 * minute, 10 * minute, hour] },
    jitter: { proportional: 0.2 },
    maxAttempts: 5,
    giveUpAfterMs: 72 * hourMs,
    // "DNS a limited number of times": three. Silent on timeouts and the rarer 5xx, which are retried.
    expireUnattemptedAfterMs,
    rules: { clientErrors: { retried: [408, 429] }, attemptLimits: { dns: 3 } },
    retryAfter: "instead",
  },
  progressive: {
    delays: { schedule: [30, 2 * minute, 8 * minute, 32 * minute, 2 * hour, 8 * hour], cap: 8 * hour },
    jitter: { proportional: 0.5 },
    maxAttempts: 8,
    giveUpAfterMs: 48 * hourMs,
    // Silent on the other 4xx and the rarer 5xx, which are retried.
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
    // "Most 4xx" are permanent: all but the three by which HTTP itself invites a repeat.
    expireUnattemptedAfterMs,
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
