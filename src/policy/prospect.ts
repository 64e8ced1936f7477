/**
 * What a policy promises a delivery that never succeeds: when each attempt is made, and where it ends. Played
 * by the transition itself, so that what is promised is what is done.
 */
import type { RetryPolicy } from "./retry-policy.ts";
import { type Transition, transition } from "./transition.ts";

/** One attempt, in ms after the first. */
export type PreviewedAttempt = Readonly<{
  /** When it is made if every wait so far came out in the middle of its jitter. */
  at: number;
  /** How early and how late it may be after those waits. */
  from: number;
  to: number;
}>;

export type RetryPreview = Readonly<{
  /** The first included, at 0. */
  attempts: readonly PreviewedAttempt[];
  /** Why there is no further one: all used up, too old, or none looked at beyond so many. */
  ends: "exhausted" | "expired" | "beyond";
}>;

const FAILED = { kind: "response", status: 500 } as const;
const MIDDLE = 0.5;
const HIGHEST = 1 - Number.EPSILON;

/** @param most attempts looked at; more are possible with a policy that only its age limit ends */
export function retryPreviewOf(policy: RetryPolicy, most: number): RetryPreview {
  const attempts: PreviewedAttempt[] = [{ at: 0, from: 0, to: 0 }];
  let waitedMs: number | undefined;
  for (let last = attempts[0]; last && attempts.length < most; last = attempts.at(-1)) {
    const { at } = last;
    const next = (random: number) => after(attempts.length, waitedMs, policy, at, random);
    const middle = next(MIDDLE);
    if (middle.kind !== "retry") return { attempts, ends: endOf(middle) };
    attempts.push({ at: middle.at, from: timeOf(next(0), policy), to: timeOf(next(HIGHEST), policy) });
    waitedMs = middle.at - at;
  }
  return { attempts, ends: attempts.length >= policy.maxAttempts ? "exhausted" : "beyond" };
}

function after(
  attempts: number,
  previousDelayMs: number | undefined,
  policy: RetryPolicy,
  at: number,
  random: number,
): Transition {
  const previous = previousDelayMs === undefined ? {} : { previousDelayMs };
  return transition(FAILED, { attempts, giveUpAt: policy.giveUpAfterMs, ...previous }, policy, at, random);
}

/** What would come after the age limit is cut off by it. */
function timeOf(next: Transition, policy: RetryPolicy): number {
  return next.kind === "retry" ? next.at : policy.giveUpAfterMs;
}

function endOf(end: Transition): "exhausted" | "expired" {
  return end.kind === "dead" && end.reason === "exhausted" ? "exhausted" : "expired";
}
