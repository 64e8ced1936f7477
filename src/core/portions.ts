/** The list in portions of this size, in its order. */
export function portionsOf<T>(list: readonly T[], size: number): T[][] {
  return portioned(list, () => 1, size);
}

/** The items in their order, in portions of which none is larger than that, unless it has one item alone. */
export function portioned<T>(items: readonly T[], sizeOf: (item: T) => number, most: number): T[][] {
  const portions: T[][] = [];
  let room = 0;
  for (const item of items) {
    const size = sizeOf(item);
    if (size > room || portions.length === 0) {
      portions.push([]);
      room = most;
    }
    portions.at(-1)?.push(item);
    room -= size;
  }
  return portions;
}
