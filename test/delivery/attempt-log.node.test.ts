/** An invocation's records of its attempts: lines of the log, and data points. */
import { beforeEach, describe, expect, test } from "vitest";
import { resolveRetry } from "../../src/core/retry/policy.ts";
import type { Leased } from "../../src/delivery/admission.ts";
import { logAttempt, logCounts, logLease, withCounts } from "../../src/delivery/attempt-log.ts";
import type { Attempt } from "../../src/delivery/http.ts";
import { type Finished, finish } from "../../src/delivery/outcome.ts";
import { deliveryId, eventId } from "../../src/ids.ts";
import type { LogLine } from "../../src/log.ts";
import type { Services } from "../../src/services.ts";
import { START } from "../support/clock.ts";
import { DESTINATION, loadedDelivery, storedDestination } from "../support/loaded-delivery.ts";

const policy = resolveRetry({ schedule: [100], jitter: "none" });

let log: LogLine[];
let points: AnalyticsEngineDataPoint[];
let now: number;
beforeEach(() => {
  log = [];
  points = [];
  now = START;
});

/** The services of an invocation that counts, reduced to those needed. */
function counting({ logAttempts, takes = 100 }: { logAttempts?: "all"; takes?: number } = {}): Services {
  const writeDataPoint = (point: AnalyticsEngineDataPoint) => {
    if (points.length === takes) throw new Error("Too many data points");
    points.push(point);
  };
  const services = {
    ...{ config: { logAttempts }, attempts: { writeDataPoint }, now: () => now },
    log: (line: LogLine) => log.push(line),
  };
  return withCounts(services as unknown as Services, "queue");
}

/** An attempt that was answered so, `tookMs` after it began. */
function ended(
  answer: number | Attempt["exchange"],
  tookMs = 20,
  given: Parameters<typeof loadedDelivery>[0] = {},
) {
  const exchange = typeof answer === "number" ? { kind: "response" as const, status: answer } : answer;
  const startedAt = START + 1_000;
  const delivery = loadedDelivery(given);
  return finish({ delivery, exchange, startedAt, endedAt: startedAt + tookMs }, policy, 0);
}

describe("the deliveries of an invocation", () => {
  test("are counted in one line, together with failures", () => {
    const services = counting({ takes: 2 });
    logAttempt(services, ended(204, 30));
    logAttempt(services, ended(204, 50, { destination: { id: "dst_b" } }));
    logAttempt(services, ended(204, 40));
    logAttempt(services, ended(500, 45));
    log = [];
    now = START + 700;
    logCounts(services);
    expect(log).toStrictEqual([
      {
        ...{ what: "delivered", source: "queue", deliveries: 3, failed: 1, destinations: 2 },
        ...{ slowest_ms: 50, took_ms: 700, uncounted: 2 },
      },
    ]);
  });

  test("are counted from zero after a line", () => {
    const services = counting({ takes: 0 });
    logAttempt(services, ended(204, 90));
    logAttempt(services, ended(500, 90, { destination: { id: "dst_b" } }));
    logCounts(services);
    Object.assign(services, { attempts: undefined });
    logAttempt(services, ended(204, 10));
    logAttempt(services, ended(500, 10));
    log = [];
    logCounts(services);
    expect(log).toStrictEqual([
      {
        what: "delivered",
        source: "queue",
        deliveries: 1,
        failed: 1,
        destinations: 1,
        slowest_ms: 10,
        took_ms: 0,
      },
    ]);
  });

  test("have no line if all attempts have succeeded, and are not in the next line either", () => {
    const services = counting();
    logAttempt(services, ended(204));
    logCounts(services);
    expect(log).toEqual([]);
    logAttempt(services, ended(204));
    logAttempt(services, ended(500));
    logCounts(services);
    expect(log.at(-1)).toMatchObject({ what: "delivered", deliveries: 1, failed: 1 });
  });

  test("have no line if there are none, or if nothing counts", () => {
    const services = counting();
    logAttempt(services, ended(500));
    log = [];
    logCounts(services);
    logCounts({ ...services, attemptCounts: undefined } as unknown as Services);
    expect(log).toEqual([]);
  });
});

describe("an attempt", () => {
  test("that fails has a line with ids and figures, and nothing of the payload", () => {
    const given = {
      event: { id: 300, deliverAt: START + 400 },
      row: { attempts: 2, nextAttemptAt: START + 900 },
    };
    const finished = ended(503, 20, given);
    const fault = "The receiver said no";
    logAttempt(counting(), { ...finished, attempt: { ...finished.attempt, fault } });
    expect(log).toStrictEqual([
      {
        ...{ what: "attempt", event: eventId(300), destination: DESTINATION, fault },
        ...{ delivery: deliveryId(300, DESTINATION), type: "order.paid", tenant: "acme", attempt: 3 },
        ...{ status: 503, error: undefined, latency_ms: 20, late_ms: 100, age_ms: 600, state: "retrying" },
        ...{ reason: "http_503", next_attempt_at: START + 101_020, uncounted: undefined },
      },
    ]);
  });

  test("without an answer has a line with the error", () => {
    logAttempt(counting(), ended({ kind: "timeout" }));
    expect(log).toMatchObject([{ status: undefined, error: "timeout", reason: "timeout" }]);
  });

  test("whose data point is not accepted has a line that says why, and is not a failure", () => {
    logAttempt(counting({ takes: 0 }), ended(500));
    expect(log).toMatchObject([{ what: "attempt", uncounted: "Error: Too many data points" }]);
  });

  test("that succeeds has a line only if all have one", () => {
    logAttempt(counting(), ended(204));
    expect(log).toEqual([]);
    logAttempt(counting({ logAttempts: "all" }), ended(204));
    expect(log).toMatchObject([{ what: "attempt", state: "delivered" }]);
  });

  test("that is not counted is still logged", () => {
    const services = { ...counting(), attemptCounts: undefined } as unknown as Services;
    logAttempt(services, ended(500));
    expect(log).toHaveLength(1);
  });

  test("leaves a data point for each, with its columns in this order", () => {
    logAttempt(counting(), ended(500, 20, { row: { attempts: 1, nextAttemptAt: START + 900 } }));
    logAttempt(counting(), ended({ kind: "timeout" }));
    const delivery = deliveryId(128, DESTINATION);
    expect(points).toStrictEqual([
      {
        indexes: [DESTINATION],
        blobs: ["acme", "order.paid", "5xx", "retrying", "http_500", delivery],
        doubles: [2, 500, 20, 100],
      },
      {
        indexes: [DESTINATION],
        blobs: ["acme", "order.paid", "timeout", "retrying", "timeout", delivery],
        doubles: [1, 0, 20, 1_000],
      },
    ]);
  });
});

describe("a lease", () => {
  const done = (...answers: number[]) => answers.map((answer) => ended(answer));
  const leaseOf = (finished: readonly Finished[], left: number, running: number) => {
    const several = (count: number, from: number) =>
      Array.from({ length: count }, (_, i) => loadedDelivery({ event: { id: from + i } }));
    const run = {
      done: finished,
      queue: several(left, 200),
      running: new Map(several(running, 220).map((one) => [one, START])),
      leftoverReason: () => ({ reason: "rate", until: START }),
    };
    const grant = { deliveries: Array(9) };
    logLease(counting(), { destination: storedDestination(), grant, run } as unknown as Leased);
    return log;
  };
  const line = { what: "lease", destination: DESTINATION, granted: 9 };

  test("with all deliveries delivered has no line", () => {
    expect(leaseOf(done(204, 204), 0, 0)).toEqual([]);
  });

  test.each([
    [done(204, 500, 204), 0, 0, { delivered: 2, failed: 1, running: 0, left: 0, reason: undefined }],
    [done(204), 0, 1, { delivered: 1, failed: 0, running: 1, left: 0, reason: undefined }],
    [done(204), 2, 0, { delivered: 1, failed: 0, running: 0, left: 2, reason: "rate" }],
    [done(500), 1, 0, { delivered: 0, failed: 1, running: 0, left: 1, reason: "rate" }],
    [done(), 1, 1, { delivered: 0, failed: 0, running: 1, left: 1, reason: "rate" }],
  ])("with a delivery that failed, is left over or still runs has one line (%#)", (finished, left, running, counts) => {
    expect(leaseOf(finished, left, running)).toStrictEqual([{ ...line, ...counts }]);
  });
});
