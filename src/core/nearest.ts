/** Finds the name that an unknown one may have meant. Pure. */

/** Longer names are not compared: a caller may send any. */
const MOST_CHARACTERS = 64;

/**
 * The known name that a mistyped one most probably means: the same letters in another style (`maxConcurrency`), at most
 * one change in three letters, or else its last words (`event_type` for `type`). Undefined if none is near, or two are
 * equally near.
 */
export function nearestName(given: string, known: readonly string[]): string | undefined {
  if (given.length > MOST_CHARACTERS) return undefined;
  const plain = plainOf(given);
  const most = Math.floor(plain.length / 3);
  const near = known
    .map((name) => ({ name, distance: distanceOf(plain, plainOf(name)) }))
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance);
  const [first, second] = near;
  if (first) return first.distance !== second?.distance ? first.name : undefined;
  const ends = known.filter((name) => given.endsWith(`_${name}`));
  return ends.length === 1 ? ends[0] : undefined;
}

function plainOf(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** How many letters must be added, removed, replaced or swapped with their neighbour (optimal string alignment). */
function distanceOf(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? (before[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY;
      row.push(Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, replaced, swapped));
    }
    [before, last] = [last, row];
  }
  return last[b.length] ?? 0;
}
