/** For how long what is kept is kept. */

/** Stored days, whatever an operator has made of them by hand: null where they set nothing. */
export function wholeDays(stored: unknown): number | null {
  return typeof stored === "number" && Number.isInteger(stored) && stored >= 1 ? stored : null;
}
