/** Whose turn it is: each round begins with another one, so that none always has the machine's same mood. */

export function inTurn<T>(all: readonly T[], round: number): readonly T[] {
  const first = round % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}
