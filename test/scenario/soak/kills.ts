/** When the stack was killed, and what that explains. Times are epoch ms. */

/**
 * The longest time from an answer to its record: a batch starts attempts for five seconds, waits one more for the last
 * answer, and writes, which may take three tries of up to a second. Twice that, for a machine that is busy with other things.
 */
const UNRECORDED_MS = 20_000;

export class Kills {
  /** From before the signal until everything had ended. */
  readonly #kills: Readonly<{ from: number; to: number }>[] = [];

  add(from: number, to: number): void {
    this.#kills.push({ from, to });
  }

  /**
   * Whether one of them, before `at`, may have undone the effect of an answer. One that ended while the request was being
   * answered has: the sender was gone, even where the receiver has not noticed.
   * @param arrivedAt when the request came; when it was answered, unless given
   * @param withinMs how long it takes until the answer has its effect; to record it, unless given
   */
  hasUndone(
    { arrivedAt, answeredAt }: Readonly<{ arrivedAt?: number; answeredAt: number }>,
    at: number,
    withinMs = UNRECORDED_MS,
  ): boolean {
    return this.#kills.some(
      ({ from, to }) => to >= (arrivedAt ?? answeredAt) && from <= at && from - answeredAt <= withinMs,
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
