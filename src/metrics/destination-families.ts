/**
 * What is exposed of each destination. Its id is the only label that grows, and at most as many ids appear
 * as gates are asked; results, numbers and bounds are fixed. Counters only grow, as long as a gate lives.
 */
import { DELAY_BOUNDS_MS, LATENCY_BOUNDS_MS } from "../policy/histogram.ts";
import { ratesOf } from "../policy/rates.ts";
import { results } from "../policy/sample.ts";
import { emptyCounters, type Counters } from "../policy/tally.ts";
import { RETRIES_COUNTED } from "../store/retries.ts";
import { type Family, histogramSamples, type Labels, type Sample } from "./exposition.ts";
import { counter, gauge, histogram } from "./family.ts";
import { COUNTED, type Fleet, type Seen } from "./fleet.ts";

/** Attempts by their number, as `ATTEMPT_BOUNDS` divides them. */
export const ATTEMPT_NUMBERS = ["1", "2", "3", "4", "5", "6-10", "11+"] as const;

const circuits = { closed: 0, half_open: 1, open: 2 } as const;

export function destinationFamilies({ seen }: Fleet): Family[] {
  const of = (samplesOf: (one: Reached, labels: Labels) => readonly Sample[]) =>
    seen.flatMap((one) => {
      const { figures } = one;
      return figures ? samplesOf({ ...one, figures }, { destination: one.row.id }) : [];
    });
  const each = (pick: (one: Reached) => number) => of((one, labels) => [{ labels, value: pick(one) }]);
  const depth = (pick: (one: Seen) => number) =>
    seen.map((one) => ({ labels: { destination: one.row.id }, value: pick(one) }));
  return [
    counter("attempts_total", "Attempts, by what they came to.", of(byResult)),
    counter(
      "attempts_by_number_total",
      "Attempts, by the how manieth of its delivery each was.",
      of(byNumber),
    ),
    counter(
      "delivered_total",
      "Deliveries that ended delivered.",
      each(({ figures }) => figures.ever.delivered),
    ),
    counter(
      "dead_total",
      "Deliveries that ended dead, with or without an attempt.",
      each(({ figures }) => figures.ever.dead),
    ),
    histogram("attempt_duration_seconds", "How long attempts took.", of(latency)),
    histogram("queue_delay_seconds", "How long after their time attempts started.", of(delay)),
    gauge(
      "waiting_deliveries",
      `Deliveries held at the door, ${COUNTED} at most.`,
      depth(({ depth }) => depth.waiting),
    ),
    gauge(
      "dead_letters",
      `Dead deliveries that are kept, ${COUNTED} at most.`,
      depth(({ depth }) => depth.dead),
    ),
    gauge(
      "retrying_deliveries",
      `Deliveries to be tried again, of the ${RETRIES_COUNTED} in all that are due first.`,
      depth(({ depth }) => depth.retrying),
    ),
    gauge(
      "storm_ratio",
      "Retries for each first attempt, over 15 minutes.",
      each(({ figures }) => ratesOf(quarter(figures)).retryRatio),
    ),
    gauge(
      "storm",
      "1 while there is a retry storm: a ratio above 5 with more than 100 retries.",
      each(({ figures }) => Number(figures.view.traffic.storm)),
    ),
    gauge(
      "circuit_state",
      "0 closed, 1 half-open, 2 open.",
      each(({ figures }) => circuits[figures.view.circuit]),
    ),
    gauge(
      "in_flight",
      "Connections under lease.",
      each(({ figures }) => figures.view.inFlight),
    ),
    gauge(
      "paused",
      "1 while the destination is paused.",
      depth(({ row }) => Number(row.status === "paused")),
    ),
  ];
}

type Reached = Seen & Readonly<{ figures: NonNullable<Seen["figures"]> }>;

function quarter({ windows }: Reached["figures"]): Counters {
  return windows["15m"]?.sum ?? emptyCounters(0);
}

function byResult({ figures }: Reached, labels: Labels): Sample[] {
  return results.map((result, i) => ({ labels: { ...labels, result }, value: figures.ever.results[i] ?? 0 }));
}

function byNumber({ figures }: Reached, labels: Labels): Sample[] {
  return ATTEMPT_NUMBERS.map((number, i) => ({
    labels: { ...labels, number },
    value: figures.ever.attempts[i] ?? 0,
  }));
}

function latency({ figures: { ever } }: Reached, labels: Labels): Sample[] {
  return histogramSamples(labels, ever.latency, LATENCY_BOUNDS_MS, ever.latencyMs);
}

function delay({ figures: { ever } }: Reached, labels: Labels): Sample[] {
  return histogramSamples(labels, ever.delay, DELAY_BOUNDS_MS, ever.delayMs);
}
