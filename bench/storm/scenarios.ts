/**
 * The scenarios. The usual receiver serves 10 requests at once in 100 ms each, which is just what a destination's
 * default limits allow at once and a second. With 20 ms on the wire, 10 connections carry 83 a second.
 */

import type { Random } from "../../src/core/seeded-random.ts";
import {
  BEGINNING,
  FINE,
  isWithin,
  type ScheduledPost,
  type ServerShape,
  type Scenario as SimulatedScenario,
  type Span,
  steady,
  type Trouble,
} from "../../src/simulator/scenario.ts";

import type { DestinationSettings } from "./breakwater/destinations.ts";

/** A scenario with settings of the destinations, which may be any of their columns. */
export type Scenario = SimulatedScenario & Readonly<{ settings: DestinationSettings; isBatched?: boolean }>;

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** The time before anything goes wrong, and how long traffic continues after it. */
const BEFORE = MINUTE;
const AFTER = 5 * MINUTE;

const usual: ServerShape = { slots: 10, serviceMs: 100, strain: 100, bound: 300, restartMs: MINUTE };
const DOWN: Trouble = { kind: "down" };

const one = { server: usual, receivers: 1, watched: () => true, settings: {} };

/** A trouble that lasts for `lastMs`, with steady traffic before, during and after it. */
function troubled(name: string, title: string, lastMs: number, deliveries: number, trouble = DOWN): Scenario {
  const troubles = [{ from: BEFORE, to: BEFORE + lastMs }];
  return {
    ...one,
    name,
    title,
    troubles,
    troubleAt: (_, now) => (isWithin(troubles, now) ? trouble : FINE),
    posts: (random) => steady((deliveries / lastMs) * SECOND, around(troubles), 0, random),
  };
}

function around(troubles: readonly Span[]): Span {
  return { from: 0, to: (troubles.at(-1)?.to ?? 0) + AFTER };
}

/** An outage of an hour, with 50,000 deliveries unless said otherwise. */
export function outageOfAnHour(deliveries = 50_000): Scenario {
  return troubled(
    "outage-1h",
    `Down for 1 h, ${deliveries.toLocaleString("en")} deliveries`,
    HOUR,
    deliveries,
  );
}

const outageOf30Seconds = troubled("outage-30s", "Down for 30 s, 20/s", 30 * SECOND, 600);
/** The same with a tenth of the traffic. */
export const quietOutage = troubled("quiet-30s", "Down for 30 s, 2/s", 30 * SECOND, 60);
export const outageOf10Minutes = troubled("outage-10m", "Down for 10 min, 10/s", 10 * MINUTE, 6_000);
const outageOf6Hours = troubled("outage-6h", "Down for 6 h, 12,000 deliveries", 6 * HOUR, 12_000);

/** Few deliveries and a long outage: the probes of the gate use up the attempts of these few. */
export const quiet = troubled("quiet", "Down for 6 h, 60 deliveries", 6 * HOUR, 60);

/**
 * A receiver that is down for days, because it is not repaired. Events are posted from the very beginning of the outage
 * until an hour after it. The first are the oldest when it ends, and nearest to their age limit.
 * @param perPost how many events come together
 */
export function weekend(lastMs: number, perHour: number, perPost = 1): Scenario {
  const hours = Math.round((lastMs / HOUR) * 100) / 100;
  const quietly = troubled(
    "weekend",
    `Down for ${hours} h, ${perHour.toLocaleString("en")} an hour`,
    lastMs,
    0,
  );
  const posts = Math.floor(((lastMs + HOUR) / HOUR) * perHour);
  const postAt = (i: number) => BEGINNING + BEFORE + Math.floor(((i - (i % perPost)) * HOUR) / perHour);
  return {
    ...quietly,
    isBatched: perPost > 1,
    posts: () => Array.from({ length: posts }, (_, i) => ({ at: postAt(i), receiver: 0 })),
  };
}

/** Two days, and three less a minute: the longest outage that the default policy promises to survive. */
export const WEEKENDS = { two: 48 * HOUR, three: 72 * HOUR - MINUTE };

/** A receiver that answers with this status for `lastMs`. 60 events an hour are posted, for a day at most. */
export function refused(title: string, status: number, lastMs: number): Scenario {
  const refusing = troubled("refused", title, lastMs, 0, { kind: "refusing", status });
  const until = BEFORE + Math.min(lastMs, 24 * HOUR) + AFTER;
  return { ...refusing, posts: (random) => steady(1 / 60, { from: 0, to: until }, 0, random) };
}

export const slow = troubled("slow", "20 times slower for 10 min, 10/s", 10 * MINUTE, 6_000, {
  kind: "slow",
  factor: 20,
});

const weak: Scenario = {
  ...troubled("weak", "Down for 10 min, half as strong as its limits say, 10/s", 10 * MINUTE, 6_000),
  server: { ...usual, slots: 5 },
};

/** Too few failures to open the circuit, so the schedule decides for every sender. */
export const erratic = troubled(
  "erratic",
  "30 % of all answers are 503 for 10 min, 10/s",
  10 * MINUTE,
  6_000,
  {
    kind: "erratic",
    share: 0.3,
  },
);

const flaps = Array.from({ length: 10 }, (_, i) => ({
  from: (i + 1) * MINUTE,
  to: (i + 1) * MINUTE + 40 * SECOND,
}));

const flapping: Scenario = {
  ...troubled("flapping", "Down for 40 s of every minute, ten times, 10/s", 10 * MINUTE, 6_000),
  troubles: flaps,
  troubleAt: (_, now) => (isWithin(flaps, now) ? DOWN : FINE),
};

const BURST = 10_000;

const throttling: Scenario = {
  ...one,
  name: "429",
  title: `${BURST.toLocaleString("en")} at once; more than 50/s answered by 429, Retry-After: 60`,
  server: { ...usual, perSecond: 50, retryAfterS: 60 },
  // The burst itself is the only trouble, so figures count from its moment.
  troubles: [{ from: SECOND, to: SECOND }],
  troubleAt: () => FINE,
  posts: () => Array.from({ length: BURST }, (): ScheduledPost => ({ at: BEGINNING + SECOND, receiver: 0 })),
};

const throttlingKnown: Scenario = {
  ...throttling,
  name: "429-known",
  title: "The same, with the destination's rate set to 45/s",
  settings: { ratePerSecond: 45, rateBurst: 1 },
};

const HEALTHY = 9;
const hang = [{ from: BEFORE, to: BEFORE + 3 * MINUTE }];

const hanging: Scenario = {
  ...one,
  name: "hanging",
  title: `One of 10 hangs for 3 min with 40/s; delays of the ${HEALTHY} others, 2/s each`,
  receivers: HEALTHY + 1,
  watched: (receiver) => receiver > 0,
  troubles: hang,
  troubleAt: (receiver, now) => (receiver === 0 && isWithin(hang, now) ? { kind: "hanging" } : FINE),
  posts: (random) => amongOthers(random),
};

function amongOthers(random: Random): readonly ScheduledPost[] {
  const all = Array.from({ length: HEALTHY + 1 }, (_, receiver) =>
    steady(receiver === 0 ? 40 : 2, around(hang), receiver, random),
  );
  return all.flat().sort((a, b) => a.at - b.at);
}

export const scenarios: readonly Scenario[] = [
  outageOf30Seconds,
  outageOf10Minutes,
  outageOfAnHour(),
  outageOf6Hours,
  slow,
  flapping,
  erratic,
  weak,
  throttling,
  throttlingKnown,
  hanging,
];
