/**
 * The send slots of one lease, as its holder uses them up: the rate's own rule (see rate.ts), counted from the
 * starts that really happen. A lease that begins late, because the gate or D1 took long to answer, loses
 * nothing by it: its later slots move with the earlier ones, and the gate is told so when the lease is settled.
 *
 * So a receiver may see, within any T, the sends of T and of what the holders of its leases were late by, beyond
 * one burst: at most `burst + rate × (T + lateness)`. Holders that are equally late are all on time.
 */
import type { Grant } from "./lease.ts";

export type SendSlots = Readonly<{
  /** When the next attempt may start that nobody has claimed; undefined when the lease has no more. */
  nextAt: () => number | undefined;
  /** The same, and it is somebody's. Who has claimed one uses it or gives it back. */
  claim: () => number | undefined;
  /** Whether an attempt may start now: others may have started later than their slots said. */
  isFree: (now: number) => boolean;
  /** An attempt starts now, in a slot that was claimed. */
  use: (now: number) => void;
  giveBack: () => void;
  /** The rate's theoretical arrival time by what was really started; undefined when nothing was. */
  tat: () => number | undefined;
}>;

/** Timers wake up early by that much. */
const EARLY_MS = 1;

/** A start due within a millisecond comes at its end, and is not late: or every start would put off all after it. */
const ROUNDED_MS = 1;

/** Sums of fractions of a millisecond since 1970 are wrong by less. */
const INEXACT_MS = 0.1;

/** @param grantedAt when the grant arrived, by the holder's clock: never before the gate gave it */
export function sendSlotsOf(
  { pace, deliveries }: Pick<Grant, "pace" | "deliveries">,
  grantedAt: number,
): SendSlots {
  const { firstInMs, everyMs, slackMs } = pace;
  let tat = grantedAt + firstInMs + slackMs;
  let used = 0;
  let claimed = 0;

  function nextAt(): number | undefined {
    if (used + claimed >= deliveries.length) return undefined;
    return Math.ceil(tat - slackMs + claimed * everyMs - INEXACT_MS);
  }

  function claim(): number | undefined {
    const at = nextAt();
    if (at !== undefined) claimed += 1;
    return at;
  }

  function use(now: number): void {
    claimed -= 1;
    used += 1;
    tat = (now - tat < ROUNDED_MS ? tat : now) + everyMs;
  }

  return {
    nextAt,
    claim,
    isFree: (now) => now + EARLY_MS >= tat - slackMs,
    use,
    giveBack: () => {
      claimed -= 1;
    },
    tat: () => (used > 0 ? tat : undefined),
  };
}
