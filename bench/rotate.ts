/** The order of a round: each begins with another contender, so that none always runs under the same load. */

export function inTurn<T>(all: readonly T[], round: number): readonly T[] {
  const first = round % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}
