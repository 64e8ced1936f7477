/**
 * What a receiver says of its own limits before it has to refuse: the `RateLimit` field of the IETF draft
 * (draft-ietf-httpapi-ratelimit-headers), its older `RateLimit-Remaining` and `-Reset`, and the customary
 * `X-RateLimit-…`. Advice only: what cannot be read is ignored.
 */
import { parseRetryAfter } from "./retry/retry-after.ts";

export type StatedLimits = Readonly<{
  /** Requests that the receiver will still take. */
  remaining: number;
  /** When it will take more, epoch ms. */
  resetAt: number;
}>;

/** A header's value by its lower-case name, or null. */
export type HeaderOf = (name: string) => string | null;

/** Advice is not a Retry-After: it holds a destination for so long at most. */
const LONGEST_MS = 60 * 60_000;
/** Resets above this are points in time, in seconds since 1970; below it they are seconds from now. */
const EPOCH_FROM_S = 1_000_000_000;

/** @param ok whether the answer was a success: a Retry-After on a refusal is the retry policy's to read */
export function statedLimits(header: HeaderOf, ok: boolean, now: number): StatedLimits | undefined {
  const breakAt = ok ? parseRetryAfter(header("retry-after") ?? undefined, now) : undefined;
  const [remaining, resetAt] = breakAt === undefined ? numbersOf(header, now) : [0, breakAt];
  return resetAt > now ? { remaining, resetAt: Math.min(resetAt, now + LONGEST_MS) } : undefined;
}

function numbersOf(header: HeaderOf, now: number): Pair {
  const pair = structured(header("ratelimit")) ?? plain(header, "ratelimit") ?? plain(header, "x-ratelimit");
  const [remaining, reset] = pair ?? [0, 0];
  return [remaining, reset >= EPOCH_FROM_S ? reset * 1000 : now + reset * 1000];
}

type Pair = readonly [remaining: number, reset: number];

/** `"burst";r=12;t=30, "day";r=4;t=3600`: of several policies the tightest counts. */
function structured(value: string | null): Pair | undefined {
  if (value === null) return undefined;
  const pairs = value.split(",").flatMap((item): Pair[] => {
    const remaining = whole(/;\s*r=(\d+)/.exec(item)?.[1]);
    const reset = whole(/;\s*t=(\d+)/.exec(item)?.[1]);
    return remaining === undefined || reset === undefined ? [] : [[remaining, reset]];
  });
  return pairs.toSorted(([a], [b]) => a - b)[0];
}

function plain(header: HeaderOf, prefix: string): Pair | undefined {
  const remaining = whole(header(`${prefix}-remaining`));
  if (remaining === undefined) return undefined;
  const reset = whole(header(`${prefix}-reset`));
  return reset === undefined ? undefined : [remaining, reset];
}

/** A whole number of at most ten digits, as all of these are. */
function whole(text: string | null | undefined): number | undefined {
  return text && /^\s*\d{1,10}\s*$/.test(text) ? Number(text) : undefined;
}
