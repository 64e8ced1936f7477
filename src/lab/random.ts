/** Seeded randomness (mulberry32): the same seed gives the same figures, to the byte. */
export type Random = () => number;

/** Uniform in [0, 1). */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    const a = Math.imul(state ^ (state >>> 15), state | 1);
    const b = a ^ (a + Math.imul(a ^ (a >>> 7), a | 61));
    return ((b ^ (b >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The time to the next of independent events that happen `perSecond`, in milliseconds. */
export function gapMs(perSecond: number, random: Random): number {
  return (-Math.log(1 - random()) / perSecond) * 1000;
}
