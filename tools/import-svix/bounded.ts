/** Work in parallel, with a bound. */

/** The results in the order of the items; the first error ends it, after what is under way. */
export async function mapBounded<T, R>(items: readonly T[], atOnce: number, map: (item: T) => Promise<R>) {
  const results: R[] = [];
  let next = 0;
  let isOver = false;
  async function worker(): Promise<void> {
    while (next < items.length && !isOver) {
      const index = next;
      next += 1;
      try {
        results[index] = await map(items[index] as T);
      } catch (error) {
        isOver = true;
        throw error;
      }
    }
  }
  const workers = await Promise.allSettled(Array.from({ length: Math.min(atOnce, items.length) }, worker));
  for (const ended of workers) if (ended.status === "rejected") throw ended.reason;
  return results;
}
