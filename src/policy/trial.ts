/**
 * How often a destination may be sent a test event. Tests pass by the door, because a person who is about to
 * open it wants to know what is behind; so they have a bound of their own.
 */

const APART_MS = 5_000;

/** When the next test may be made after one at `testedAt`, if not at `now`. */
export function testRefusedUntil(testedAt: number, now: number): number | undefined {
  // A time in the future is a clock's that was wrong.
  return testedAt <= now && now - testedAt < APART_MS ? testedAt + APART_MS : undefined;
}
