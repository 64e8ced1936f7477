/** Which errors of the platform are transient, by the messages that its documentation lists. */
import { describe, expect, it } from "vitest";
import { transientOf } from "../../src/core/transient.ts";

describe("an error of D1", () => {
  it.each([
    ["Cannot resolve D1 DB due to transient issue on remote node.", "not_reached"],
    ["Internal error while starting up D1 DB storage caused object to be reset.", "not_reached"],
    ["Network connection lost.", "interrupted"],
    ["D1 DB reset because its code was updated.", "interrupted"],
    ["Internal error in D1 DB storage caused object to be reset.", "interrupted"],
    ["Can't read from request stream because client disconnected.", "interrupted"],
    ["an error that nobody has seen yet", "interrupted"],
    ["D1 DB is overloaded. Requests queued for too long.", "overloaded"],
    ["D1 DB is overloaded. Too many requests queued.", "overloaded"],
    ["D1 DB storage operation exceeded timeout which caused object to be reset.", "overloaded"],
    ["D1 DB's isolate exceeded its memory limit and was reset.", "overloaded"],
    ["D1 DB exceeded its CPU time limit and was reset.", "overloaded"],
    ["UNIQUE constraint failed: api_keys.id: SQLITE_CONSTRAINT", undefined],
    ["no such table: bundles: SQLITE_ERROR", undefined],
    ["string or blob too big: SQLITE_TOOBIG", undefined],
    ["Too many API requests by single worker invocation.", undefined],
  ])("%s: %s", (message, transient) => {
    const error = new Error(`D1_ERROR: ${message}`);
    expect(transientOf(error)).toBe(transient);
    // As Drizzle wraps it.
    expect(transientOf(new Error("Failed query: select 1\nparams: ", { cause: error }))).toBe(transient);
  });
});

describe("an error of a Durable Object", () => {
  it.each([
    ["Durable Object reset because its code was updated.", {}, "interrupted"],
    ["Network connection lost.", { retryable: true }, "interrupted"],
    ["Connection closed: this Durable Object instance is no longer active.", {}, "interrupted"],
    ["internal error; reference = 0123456789", {}, "interrupted"],
    ["as the platform says it", { retryable: true }, "interrupted"],
    ["as the platform says it", { retryable: true, overloaded: true }, "overloaded"],
    ["Durable Object is overloaded. Too much data queued.", {}, "overloaded"],
    ["Your account is generating too much load on Durable Objects. Please back off.", {}, "overloaded"],
    ["Durable Object storage operation exceeded timeout which caused object to be reset.", {}, "overloaded"],
    ["a fault of our own", { remote: true }, undefined],
  ])("%s %j: %s", (message, flags, transient) => {
    expect(transientOf(Object.assign(new Error(message), flags))).toBe(transient);
  });
});

it("an error that is not the platform's is not transient", () => {
  for (const one of [undefined, null, "Network connection lost.", new TypeError("x is undefined")])
    expect(transientOf(one)).toBeUndefined();
  const circle = new Error("one");
  circle.cause = circle;
  expect(transientOf(circle)).toBeUndefined();
});

it("an error counts like the one that it wraps, four times at most", () => {
  const wrapped = (times: number): Error =>
    times === 0 ? new Error("Network connection lost.") : new Error("wrapped", { cause: wrapped(times - 1) });
  expect([0, 1, 4, 5].map((times) => transientOf(wrapped(times)))).toEqual([
    "interrupted",
    "interrupted",
    "interrupted",
    undefined,
  ]);
});
