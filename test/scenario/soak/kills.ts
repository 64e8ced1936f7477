/** When the stack was killed, and what that explains. Times are epoch ms. */

/**
 * The longest time from an answer to its record: a batch starts attempts for five seconds, waits one more for the last
 * answer, and writes, which may take three tries of up to a second. Twice that, for a machine that is busy with other things.
 */
const UNRECORDED_MS = 20_000;

export class Kills {
  /** From before the signal until all was gone. */
  readonly #kills: Readonly<{ from: number; to: number }>[] = [];

  add(from: number, to: number): void {
    this.#kills.push({ from, to });
  }

  /**
   * Whether one of them, before `at`, may have undone what was made of an answer.
   * @param withinMs how long that takes; to record it, unless given
   */
  hasUndone(answeredAt: number, at: number, withinMs = UNRECORDED_MS): boolean {
    return this.#kills.some(
      ({ from, to }) => to >= answeredAt && from <= at && from - answeredAt <= withinMs,
    );
  }

  /** How long before `at` the last one was, for a reader. */
  shortlyBefore(at: number): string {
    const last = this.#kills.findLast(({ from }) => from <= at);
    return last ? `, ${Math.round((at - last.from) / 1000)} s after a kill` : "";
  }
}

/** The time of day. */
export function timeOf(at: number): string {
  return new Date(at).toISOString().slice(11, 23);
}
