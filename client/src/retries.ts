/** Requests that are sent again: after a 429 or a 503, and after a connection that failed. */

export type RetryOptions = Readonly<{
  /** How often a request is sent at most, the first time included; 4 by default, 1 for no retries. */
  attempts?: number;
  /** The longest wait before an attempt, in ms; one minute by default. A longer `Retry-After` is not waited for. */
  maxWaitMs?: number;
  /** In place of timers. Rejects when the signal aborts. */
  sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
  /** From 0 to 1, in place of `Math.random`. */
  random?: () => number;
}>;

type Send = (request: Request) => Promise<Response>;

const MAX_WAIT_MS = 60_000;
/** The wait before the second attempt where the server names none; it doubles for each further attempt. */
const BASE_MS = 500;

const REFUSED_FOR_NOW = [429, 503];
const IDEMPOTENT_METHODS = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"];

/**
 * Sends a request again when that may help: a 429 or a 503 after its `Retry-After`, and a failed connection, each with
 * up to 100 % jitter. Only requests that may take effect twice without harm are sent again: idempotent methods, and
 * requests with an idempotency key.
 */
export function withRetries(
  send: Send,
  { attempts = 4, maxWaitMs = MAX_WAIT_MS, sleep = timer, random = Math.random }: RetryOptions = {},
): Send {
  return async (request) => {
    const { method, headers } = request;
    if (!IDEMPOTENT_METHODS.includes(method) && !headers.has("idempotency-key")) return send(request);
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt >= attempts;
      const answer = await send(isLast ? request : request.clone()).catch((error: unknown) => {
        if (isLast || request.signal.aborted) throw error;
        return undefined;
      });
      const leastMs = Math.max(BASE_MS * 2 ** (attempt - 1), retryAfterMs(answer));
      const isFinal = isLast || !REFUSED_FOR_NOW.includes(answer?.status ?? 503) || leastMs > maxWaitMs;
      if (answer && isFinal) {
        // The rest of the original is not read any more, and would stay in memory.
        if (!isLast) void request.body?.cancel();
        return answer;
      }
      await answer?.body?.cancel();
      await sleep(Math.min(leastMs * (1 + random()), maxWaitMs), request.signal);
    }
  };
}

/** The wait that `Retry-After` names, in seconds or as a date; 0 without a valid one. */
function retryAfterMs(answer: Response | undefined): number {
  const text = answer?.headers.get("retry-after")?.trim();
  if (!text) return 0;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? 0 : Math.max(0, ms);
}

function timer(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timeout);
      reject(signal.reason);
    };
    const timeout = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
