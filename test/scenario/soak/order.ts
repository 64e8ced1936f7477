/** The keys of one ordered destination, and which of its deliveries must succeed before which. */

/** A delivery's place: its key, and its number among all that were posted. */
export type Place = Readonly<{ key: string; ref: number }>;

export class Order {
  /** Open deliveries, by key. */
  readonly #open = new Map<string, Set<number>>();

  /** In the order of acceptance: each is posted when the one before has been accepted. */
  posted({ key, ref }: Place): void {
    const open = this.#open.get(key) ?? new Set();
    this.#open.set(key, open.add(ref));
  }

  /** It has succeeded, or no longer holds up others for another reason. */
  ended({ key, ref }: Place): void {
    const open = this.#open.get(key);
    open?.delete(ref);
    if (open?.size === 0) this.#open.delete(key);
  }

  /** The deliveries that should have succeeded before this one. */
  overtakenBy({ key, ref }: Place): number[] {
    return [...(this.#open.get(key) ?? [])].filter((other) => other < ref);
  }
}
