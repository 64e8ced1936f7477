/** A preview of what a retry policy does. */
import { type RetryPolicy, type Transition, transition } from "./transition.ts";

/** One attempt of a delivery that never succeeds, in ms after the first. */
export type PreviewedAttempt = Readonly<{
  /** When it is made if every wait so far was in the middle of its jitter. */
  at: number;
  /** The earliest and the latest after those waits. */
  from: number;
  to: number;
}>;

export type RetryPreview = Readonly<{
  /** The first included, at 0. */
  attempts: readonly PreviewedAttempt[];
  /** Why there is no further one; `beyond`: no more were requested. */
  ends: "exhausted" | "expired" | "beyond";
}>;

const FAILED = { kind: "response", status: 500 } as const;
const MIDDLE = 0.5;
const HIGHEST = 1 - Number.EPSILON;

/**
 * The attempts of a delivery that never succeeds, computed by the transition itself.
 * @param most attempts to preview; a policy that only its age limit ends has more
 */
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

/** A time after the age limit counts as the age limit. */
function timeOf(next: Transition, policy: RetryPolicy): number {
  return next.kind === "retry" ? next.at : policy.giveUpAfterMs;
}

function endOf(end: Transition): "exhausted" | "expired" {
  return end.kind === "dead" && end.reason === "exhausted" ? "exhausted" : "expired";
}
