/**
 * Isolates, of which production has hundreds: each has its own caches and its own clock; some sleep for hours and wake
 * up with what they remembered, some are replaced by new ones, and some run the former version during a deployment.
 */
import { type Random, seededRandom } from "../../src/core/seeded-random.ts";
import { notify } from "../../src/features/notifications/publish.ts";
import { PlacementCache } from "../../src/ingest/placement-cache.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import { newMemory } from "../../src/memory.ts";
import type { Services } from "../../src/services.ts";
import { ofFormerVersion } from "./former-version.ts";

type Own = Pick<Services, "routing" | "placement" | "memory" | "notify">;

export type Isolate = Readonly<{
  /** How far its clock is ahead, in ms; negative: behind. */
  skewMs: number;
  /** Whether it runs the former version. */
  isFormer: boolean;
  /** The services of an invocation in this isolate. */
  own: (services: Omit<Services, keyof Own>) => Services;
}>;

export type IsolateOptions = Readonly<{
  /** The number of isolates. */
  count?: number;
  /** The seed of all randomness. */
  seed?: number;
  /** The most by which clocks differ from the true one, in ms. */
  skewMs?: number;
}>;

export type Isolates = Readonly<{
  /** A random isolate that is awake at this time (epoch ms); it may fall asleep or end afterwards. */
  any: (now: number) => Isolate;
}>;

const HOUR = 3_600_000;
/** One in this many calls puts its isolate to sleep, and one in this many ends it, so that another replaces it. */
const SLEEPS_EVERY = 20;
const ENDS_EVERY = 60;
const LONGEST_SLEEP_MS = 6 * HOUR;
/** Isolates that run the former version; the others run this one. */
const FORMER_SHARE = 0.25;
/** The usual difference of clocks, ms; one in four differs by as much as is allowed. */
const USUAL_SKEW_MS = 30;

/** An isolate that has just started. */
export function newIsolate({ skewMs = 0, isFormer = false } = {}): Isolate {
  const parts: Own = {
    routing: new RoutingCache(),
    placement: new PlacementCache(),
    memory: newMemory(),
    notify,
  };
  return {
    skewMs,
    isFormer,
    own: (services) => {
      const own = { ...services, ...parts, now: () => services.now() + skewMs };
      return isFormer ? ofFormerVersion(own) : own;
    },
  };
}

/** Several isolates. The first is always awake; if it is the only one, its clock is correct. */
export function isolates({ count = 5, seed = 1, skewMs = 2_000 }: IsolateOptions = {}): Isolates {
  const random = seededRandom(seed);
  const all = Array.from({ length: count }, (_, i) => ({
    isolate: count === 1 ? newIsolate() : drawn(random, skewMs),
    asleepUntil: i === 0 ? Number.NEGATIVE_INFINITY : 0,
  }));

  function any(now: number): Isolate {
    if (count === 1) return (all[0] as (typeof all)[number]).isolate;
    const awake = all.filter(({ asleepUntil }) => asleepUntil <= now);
    const one = awake[Math.floor(random() * awake.length)] as (typeof all)[number];
    const { isolate } = one;
    if (one.asleepUntil >= 0 && random() * SLEEPS_EVERY < 1)
      one.asleepUntil = now + random() * LONGEST_SLEEP_MS;
    if (random() * ENDS_EVERY < 1) one.isolate = drawn(random, skewMs);
    return isolate;
  }

  return { any };
}

function drawn(random: Random, mostSkewMs: number): Isolate {
  const most = random() < FORMER_SHARE ? mostSkewMs : Math.min(USUAL_SKEW_MS, mostSkewMs);
  const skewMs = Math.round((2 * random() - 1) * most);
  const isFormer = random() < FORMER_SHARE;
  // The former version ends a hold by its own clock.
  return newIsolate({ skewMs: isFormer ? 0 : skewMs, isFormer });
}
