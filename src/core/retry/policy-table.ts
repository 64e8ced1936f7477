/** The presets as a table, read off the presets themselves, so that no page contradicts them. */
import type { Delays, Jitter } from "./backoff.ts";
import type { StatusRules } from "./classify.ts";
import { presetNames, presets, unlimitedAttempts } from "./presets.ts";
import type { RetryPolicy } from "./transition.ts";

/** The units that durations are written in, in seconds, the smallest first. */
export const spanUnits = { s: 1, min: 60, h: 3600, d: 86_400 } as const;

/** In the largest unit that divides it. */
export function spanText(seconds: number): string {
  const [unit, size] = Object.entries(spanUnits).findLast(([, size]) => seconds % size === 0) ?? ["s", 1];
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

/** The rules that hold for every preset, as Markdown. */
export const commonRules: readonly string[] = [
  "Every 2xx is a success. A 3xx is never followed and ends the delivery. 410 ends it and pauses the destination.",
  "5xx, 429, a timeout, a refused connection, a name that does not resolve, a failed TLS handshake and a broken connection are retried.",
  "`Retry-After` of a 429 or 503 holds the whole destination, for up to 30 days. A 429 without it doubles the wait. `retry.retry_after` says whether that of a 429 replaces the wait (`instead`) or only lengthens it (`floor`).",
  "Two limits apply: the number of attempts, and the time since the first one (`give_up_after`). A delivery without an attempt, because of a pause, a hold or an open circuit, ends after `expire_unattempted_after`, 14 days by default.",
  '`retry.on` overrides single statuses from 400 to 599 except 410: `{"on": {"retry": [400], "fail": [503]}}`.',
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
