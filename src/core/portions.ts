/** The list in portions of so many, in its order. */
export function portionsOf<T>(list: readonly T[], size: number): T[][] {
  const count = Math.ceil(list.length / size);
  return Array.from({ length: count }, (_, i) => list.slice(i * size, (i + 1) * size));
}
