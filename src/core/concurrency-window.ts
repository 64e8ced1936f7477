/**
 * How many attempts a destination is trusted with at once: slow start and back-off.
 *
 * After any reopening the window is one. It doubles with each round of successes up to the threshold that
 * the last trouble taught, then grows by one a round, and is halved by trouble. What it allows is never
 * above the destination's `max_concurrency`; the fraction below the next whole number is growth in progress.
 */
export type Window = Readonly<{
  size: number;
  threshold: number;
  /** Nothing has succeeded since it was halved: what fails now is the same trouble. */
  troubled?: boolean;
}>;

/** No trouble known yet: slow start all the way. Finite, so that it survives JSON. */
const UNTAUGHT = 1_000_000;

export const newWindow: Window = { size: 1, threshold: UNTAUGHT };

/** How many attempts the window allows at once, at least one. */
export function widthOf(window: Window, maxConcurrency: number): number {
  return Math.max(1, Math.min(Math.floor(window.size), maxConcurrency));
}

export function grown(window: Window, maxConcurrency: number): Window {
  const step = window.size < window.threshold ? 1 : 1 / window.size;
  return { size: Math.max(1, Math.min(window.size + step, maxConcurrency)), threshold: window.threshold };
}

/**
 * Half as much. A trouble teaches one threshold, however many attempts were under way when it came; and none
 * when there was only one at a time, because then it was not the width.
 */
export function halved(window: Window): Window {
  const size = Math.max(1, window.size / 2);
  const isTaught = window.troubled || window.size < 2;
  return { size, threshold: isTaught ? window.threshold : Math.max(2, size), troubled: true };
}

/** The door was shut: begin with one again. Remembers the size that worked, as the end of slow start. */
export function reopened(window: Window): Window {
  if (window.size <= 1) return window;
  return { size: 1, threshold: window.troubled ? window.threshold : Math.max(2, window.size) };
}

/** The receiver says that it will take no more than `remaining`: half of that at once, before it refuses. */
export function eased(window: Window, remaining: number | undefined): Window {
  if (remaining === undefined || window.size <= remaining / 2) return window;
  return { ...window, size: Math.max(1, remaining / 2) };
}
