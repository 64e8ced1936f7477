/**
 * The figures that have a bound beyond which somebody should look, over all destinations and the last hour. A
 * share of few says nothing: each is judged only where there is enough of what it is a share of.
 */
import { ratesOf } from "./rates.ts";
import type { Tally } from "./tally.ts";

export type Watched = Readonly<{
  hour: Tally;
  day: Tally;
  /** Deliveries that were attempted and are not over a day after their event. */
  retryingForADay: number;
}>;

/** A figure beyond its bound. */
export type Crossing = Readonly<{ threshold: Threshold; value: number; limit: number; window: "1h" | "now" }>;

export const thresholds = [
  "retry_rate",
  "dead_letter_rate",
  "mean_attempts_to_success",
  "second_attempt_success_rate",
  "dead_letter_growth",
  "retrying_for_a_day",
] as const;

export type Threshold = (typeof thresholds)[number];

const RETRY_RATE = 0.1;
const DEAD_RATE = 0.01;
const MEAN_ATTEMPTS = 2;
const SECOND_SUCCESS = 0.6;
const RETRYING_FOR_A_DAY = 100;
/** So many times as many dead within the hour as in a mean hour of the day. */
const GROWTH = 3;

const ENOUGH = 100;
const ENOUGH_SECONDS = 20;
const ENOUGH_DEAD = 20;

export function crossings({ hour, day, retryingForADay }: Watched): Crossing[] {
  const rates = ratesOf(hour);
  const [first = 0, second = 0] = hour.attempts;
  const ended = hour.delivered + hour.dead;
  const usual = Math.round((day.dead / 24) * GROWTH * 100) / 100;
  return [
    ...above("retry_rate", first >= ENOUGH ? rates.retryRate : null, RETRY_RATE),
    ...above("dead_letter_rate", ended >= ENOUGH ? rates.deadRate : null, DEAD_RATE),
    ...above(
      "mean_attempts_to_success",
      hour.delivered >= ENOUGH ? rates.meanAttemptsToSuccess : null,
      MEAN_ATTEMPTS,
    ),
    ...below(
      "second_attempt_success_rate",
      second >= ENOUGH_SECONDS ? rates.secondAttemptSuccess : null,
      SECOND_SUCCESS,
    ),
    ...above("dead_letter_growth", hour.dead >= ENOUGH_DEAD ? hour.dead : null, usual),
    ...above("retrying_for_a_day", retryingForADay, RETRYING_FOR_A_DAY, "now"),
  ];
}

function above(
  threshold: Threshold,
  value: number | null,
  limit: number,
  window: Crossing["window"] = "1h",
): Crossing[] {
  return value !== null && value > limit ? [{ threshold, value: rounded(value), limit, window }] : [];
}

function below(threshold: Threshold, value: number | null, limit: number): Crossing[] {
  return value !== null && value < limit ? [{ threshold, value: rounded(value), limit, window: "1h" }] : [];
}

function rounded(value: number): number {
  return Math.round(value * 10_000) / 10_000;
}
