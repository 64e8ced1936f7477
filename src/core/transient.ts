/**
 * Which errors of D1 and of Durable Objects are transient: temporary faults of the platform. They reach the Worker as
 * exceptions that differ in their messages, and those of objects in two flags as well.
 *
 * https://developers.cloudflare.com/d1/observability/debug-d1/#error-list
 * https://developers.cloudflare.com/durable-objects/best-practices/error-handling/
 */

/**
 * `not_reached`: the call certainly had no effect. `interrupted`: it may have had its effect, and the answer was lost.
 * `overloaded`: more calls than can be served, or one that takes too much; a repeat within seconds would add to that.
 */
export type Transient = "not_reached" | "interrupted" | "overloaded";

const MESSAGES: readonly (readonly [RegExp, Transient])[] = [
  [/\boverloaded\b|too much load|too many concurrent storage operations/i, "overloaded"],
  // A limit of the database or object itself, which was reset for it.
  [/exceeded (timeout|its memory limit|its CPU time limit)/i, "overloaded"],
  [/cannot resolve D1 DB|while starting up/i, "not_reached"],
  [/network connection lost|connection closed|client disconnected|no longer active/i, "interrupted"],
  [/caused object to be reset|because its code was updated|^internal error/i, "interrupted"],
];

/** D1's errors about a statement or its values, and about what an invocation may ask for: a repeat gets the same. */
const OF_THE_CALL = /SQLITE_|too many API requests|D1_(TYPE|EXEC)_ERROR|D1_COLUMN_NOTFOUND/i;

/** The most levels of errors within errors. */
const DEPTH = 5;

/**
 * The kind of a transient error; undefined when it is not, or not known to be. An error that wraps one counts like that
 * one.
 */
export function transientOf(error: unknown): Transient | undefined {
  let one = error;
  for (let depth = 0; depth < DEPTH && one instanceof Error; depth++) {
    const found = ofOne(one);
    if (found) return found;
    one = one.cause;
  }
  return undefined;
}

function ofOne(error: Error & { overloaded?: unknown; retryable?: unknown }): Transient | undefined {
  const { message } = error;
  if (error.overloaded === true) return "overloaded";
  if (OF_THE_CALL.test(message)) return undefined;
  const [, known] = MESSAGES.find(([pattern]) => pattern.test(message)) ?? [];
  if (known) return known;
  // D1 has errors that are not documented: those are the platform's.
  const isPlatforms = error.retryable === true || message.startsWith("D1_ERROR");
  return isPlatforms ? "interrupted" : undefined;
}
