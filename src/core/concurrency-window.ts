/**
 * The concurrency window: how many attempts a destination is trusted with at once. AIMD with slow start, as in TCP.
 *
 * After a circuit, a hold or a pause the window is one. It doubles with each round of successes up to the threshold,
 * which the last back-off has set; then it grows by one a round. A failure halves it. It never allows more than the
 * destination's `max_concurrency`. Its fraction is growth in progress.
 */
export type Window = Readonly<{
  size: number;
  threshold: number;
  /** No attempt has succeeded since it was halved, so a failure now has the same cause. */
  troubled?: boolean;
}>;

/** Before the first back-off: slow start all the way. Finite, so that it survives JSON. */
const NO_THRESHOLD = 1_000_000;

export const newWindow: Window = { size: 1, threshold: NO_THRESHOLD };

/** How many attempts the window allows at once, at least one. */
export function widthOf(window: Window, maxConcurrency: number): number {
  return Math.max(1, Math.min(Math.floor(window.size), maxConcurrency));
}

export function grown(window: Window, maxConcurrency: number): Window {
  const step = window.size < window.threshold ? 1 : 1 / window.size;
  return { size: Math.max(1, Math.min(window.size + step, maxConcurrency)), threshold: window.threshold };
}

/**
 * After a failure. One outage sets one threshold, however many attempts were under way; and none when there was only
 * one at a time, because then the concurrency was not the cause.
 */
export function halved(window: Window): Window {
  const size = Math.max(1, window.size / 2);
  const keeps = window.troubled || window.size < 2;
  return { size, threshold: keeps ? window.threshold : Math.max(2, size), troubled: true };
}

/** The destination was blocked: restart from one. The size that worked becomes the end of slow start. */
export function reopened(window: Window): Window {
  if (window.size <= 1) return window;
  return { size: 1, threshold: window.troubled ? window.threshold : Math.max(2, window.size) };
}

/** The receiver will accept `remaining` more requests: use half of that at once, before it has to refuse. */
export function eased(window: Window, remaining: number | undefined): Window {
  if (remaining === undefined || window.size <= remaining / 2) return window;
  return { ...window, size: Math.max(1, remaining / 2) };
}
