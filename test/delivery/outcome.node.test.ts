/** The effect of an attempt, or of its absence, on a delivery: its row, its log, its next attempt, and the counters. */

import { describe, expect, test } from "vitest";
import { resolveRetry } from "../../src/core/retry/policy.ts";
import type { Attempt } from "../../src/delivery/http.ts";
import {
  attemptDisposition,
  currentRow,
  deadAmong,
  finish,
  inFlightRow,
  overRow,
  waitingDisposition,
  waitingRow,
} from "../../src/delivery/outcome.ts";
import type { AttemptEntry, DeliveryRow } from "../../src/store/delivery.ts";
import type { Destination } from "../../src/store/destination.ts";
import { START } from "../support/clock.ts";
import { DESTINATION, loadedDelivery } from "../support/loaded-delivery.ts";

const DAY = 86_400_000;
const HOUR = DAY / 24;
const steady = resolveRetry({
  schedule: [100],
  jitter: "none",
  max_attempts: 100,
  give_up_after: 10 * 86_400,
});

type Given = Parameters<typeof loadedDelivery>[0];

/** An attempt that begins 10 s after acceptance, and is answered 200 ms later. */
function attempted(answer: number | Partial<Attempt> = 500, given: Given = {}): Attempt {
  const own =
    typeof answer === "number" ? { exchange: { kind: "response" as const, status: answer } } : answer;
  return {
    delivery: loadedDelivery(given),
    startedAt: START + 10_000,
    endedAt: START + 10_200,
    exchange: { kind: "response", status: 500 },
    ...own,
  };
}

const rowAfter = (attempt: Attempt, policy = steady, random = 0.5) =>
  finish(attempt, policy, random).outcome.row;

const entry = (at: number, own: Partial<AttemptEntry> = {}): AttemptEntry => ({
  at,
  latencyMs: 10,
  status: 500,
  ...own,
});

describe("the row after an attempt", () => {
  test("has the state of the delivery, and the receiver's last answer", () => {
    const common = { destinationId: DESTINATION, eventId: 128, attempts: 1, firstAttemptAt: START + 10_000 };
    expect(rowAfter(attempted(204))).toMatchObject({
      ...{ ...common, state: "delivered", reason: null, nextAttemptAt: null, endedAt: START + 10_200 },
      ...{ lastStatus: 204, lastError: null, giveUpAt: START + 10_000 + 10 * DAY },
    });
    expect(rowAfter(attempted(500))).toMatchObject({
      ...{ ...common, state: "retrying", reason: "http_500", nextAttemptAt: START + 110_200, endedAt: null },
      ...{ lastStatus: 500, lastError: "http_500" },
    });
    expect(rowAfter(attempted(400))).toMatchObject({
      ...{ ...common, state: "dead", reason: "permanent", nextAttemptAt: null, endedAt: START + 10_200 },
      ...{ lastStatus: 400, lastError: "http_400" },
    });
    expect(rowAfter(attempted({ exchange: { kind: "timeout" } }))).toMatchObject({
      ...{ state: "retrying", reason: "timeout", lastStatus: null, lastError: "timeout" },
    });
  });

  test("counts one attempt more, and is of the same generation", () => {
    const row = { attempts: 4, generation: 2, replay: "rpl_1" };
    expect(rowAfter(attempted(500, { row }))).toMatchObject({ ...row, attempts: 5 });
  });

  test("keeps the age limit that the first attempt has fixed, whatever the policy says now", () => {
    const row = { firstAttemptAt: START - DAY, giveUpAt: START + HOUR };
    expect(rowAfter(attempted(500, { row }))).toMatchObject(row);
  });

  test("is bound by the event's time to live at its first attempt, but not when it was sent again", () => {
    const event = { ttlSeconds: 3_600, deliverAt: START + 5_000 };
    const first = { firstAttemptAt: null, giveUpAt: 0, log: [] };
    const limitOf = (given: Given) => rowAfter(attempted(500, { event, ...given })).giveUpAt - START;
    expect(limitOf({})).toBe(5_000 + HOUR);
    expect(limitOf({ row: { ...first, generation: 0 } })).toBe(5_000 + HOUR);
    expect(limitOf({ row: { ...first, generation: 1 } })).toBe(10_000 + 10 * DAY);
  });
});

describe("the next attempt", () => {
  test("does not exist if one cause has used up its attempts of this generation, of those still in the log", () => {
    const policy = resolveRetry({ preset: "textbook", schedule: [1], jitter: "none" });
    const limit = policy.rules.attemptLimits.http_404 ?? 0;
    expect(limit).toBeGreaterThan(2);
    const stateAfter = (log: readonly AttemptEntry[], attempts = log.length) =>
      rowAfter(attempted(404, { row: { attempts, log } }), policy).state;
    const past = (count: number, own: Partial<AttemptEntry> = { status: 404 }) =>
      Array.from({ length: count }, (_, i) => entry(START + i, own));
    expect(stateAfter(past(limit - 1))).toBe("dead");
    expect(stateAfter(past(limit - 2))).toBe("retrying");
    expect(stateAfter([...past(limit - 2), ...past(3, { status: 500 })])).toBe("retrying");
    expect(stateAfter([...past(limit - 2), ...past(3, { status: 404, error: "refused" })])).toBe("retrying");
    expect(stateAfter([...past(3, { status: 500 }), ...past(limit - 1)])).toBe("dead");
    // The oldest one is of the former generation.
    expect(stateAfter(past(limit - 1), limit - 2)).toBe("retrying");
    // A delivery with more attempts than the log has.
    expect(stateAfter(past(limit - 1), limit + 30)).toBe("dead");
  });

  test("comes after a wait that grows from the one before it, if the policy says so", () => {
    const policy = resolveRetry({ schedule: [10, 100_000], jitter: "decorrelated" });
    const waitAfter = (row: Partial<DeliveryRow>) => {
      const { nextAttemptAt } = rowAfter(attempted(500, { row }), policy, 0.5);
      return ((nextAttemptAt ?? 0) - START - 10_200) / 1_000;
    };
    // Due 40 s after the end of the last attempt: base + random * (3 * previous - base).
    const log = [entry(START - 950_000), entry(START - 900_000), entry(START - 36_000, { latencyMs: 5_000 })];
    expect(waitAfter({ nextAttemptAt: START + 9_000, log })).toBe(10 + 0.5 * (3 * 40 - 10));
    const first = 10 + 0.5 * (3 * 10 - 10);
    expect(waitAfter({ nextAttemptAt: START - 900_000, log })).toBe(first);
    expect(waitAfter({ nextAttemptAt: null, log })).toBe(first);
    expect(waitAfter({ nextAttemptAt: START + 9_000, log: [] })).toBe(first);
  });

  test.each([
    [undefined, "retrying"],
    ["x", "retrying"],
    ["x", "delivered"],
    ["x", "dead"],
  ] as const)("has the owner %s, if the delivery is %s", (owner, state) => {
    const status = { retrying: 500, delivered: 204, dead: 400 }[state];
    const log = [entry(START - 2), entry(START - 1)];
    const finished = finish(attempted(status, { row: { attempts: 2, log, owner: "former" } }), steady, 0.5);
    const { row, retryAt } = attemptDisposition(finished, owner);
    expect(row?.log).toHaveLength(3);
    expect(row?.log.map((one) => one.at)).toEqual([START - 2, START - 1, START + 10_000]);
    expect(row?.owner).toBe(state === "retrying" ? owner : undefined);
    expect(retryAt).toBe(state === "retrying" ? START + 110_200 : undefined);
    expect(row?.state).toBe(state);
  });
});

describe("the processing of an attempt", () => {
  test("pauses the destination only after a 410", () => {
    const goneAfter = (status: number) =>
      attemptDisposition(finish(attempted(status), steady, 0.5), undefined).gone ?? false;
    expect([204, 400, 410, 500].map(goneAfter)).toEqual([false, false, true, false]);
  });

  test("publishes those that end as dead, with the reason", () => {
    const all = [204, 400, 410, 500].map((status, i) =>
      attemptDisposition(finish(attempted(status, { event: { id: 128 + i } }), steady, 0.5), undefined),
    );
    expect(deadAmong([{ delivery: loadedDelivery() }, ...all])).toMatchObject([
      { event: 129, destination: { id: DESTINATION }, reason: "permanent" },
      { event: 130, destination: { id: DESTINATION }, reason: "gone" },
    ]);
  });
});

describe("the log of a delivery", () => {
  const logAfter = (own: Partial<Attempt>, log: readonly AttemptEntry[] = []) =>
    rowAfter(attempted(own, { row: { log } })).log;

  test("has an entry for each attempt with its known facts, and nothing else", () => {
    const times = { at: START + 10_000, latencyMs: 200 };
    expect(logAfter({})).toStrictEqual([{ ...times, status: 500 }]);
    expect(logAfter({ exchange: { kind: "timeout" } })).toStrictEqual([{ ...times, error: "timeout" }]);
    expect(logAfter({ exchange: { kind: "tls", status: 525 }, excerpt: "", location: "" })).toStrictEqual([
      { ...times, status: 525, error: "tls" },
    ]);
    expect(logAfter({ excerpt: "no", isArchived: true })).toStrictEqual([
      { ...times, status: 500, excerpt: "no", archived: true },
    ]);
    expect(logAfter({ exchange: { kind: "response", status: 200 }, isArchived: true })).toStrictEqual([
      { ...times, status: 200 },
    ]);
  });

  test("notes where a redirect led, up to 200 characters, and which wish of the receiver was not met", () => {
    const noteAfter = (status: number, own: Partial<Attempt>, retryAfter?: string) =>
      logAfter({ ...own, exchange: { kind: "response", status, ...(retryAfter && { retryAfter }) } })[0]
        ?.note;
    const to = `https://a.example/${"x".repeat(300)}`;
    expect(noteAfter(301, { location: to })).toBe(`Location: ${to.slice(0, 200)}`);
    expect(noteAfter(503, {}, "soon")).toBe('Retry-After "soon" ignored');
    expect(noteAfter(503, { location: "/b" }, "soon")).toBe('Retry-After "soon" ignored; Location: /b');
    expect(noteAfter(204, { location: "/b" })).toBe("Location: /b");
  });

  test("keeps the last forty attempts in their order", () => {
    const log = Array.from({ length: 45 }, (_, i) => entry(START + i));
    expect(logAfter({}, log).map(({ at }) => at - START)).toEqual([
      ...Array.from({ length: 39 }, (_, i) => 6 + i),
      10_000,
    ]);
  });

  test("keeps the beginnings of earlier answers, the newest first while there is room", () => {
    const long = (text: string) => ({ excerpt: text.repeat(4_096) });
    const lengthsOf = (log: readonly AttemptEntry[]) => log.map(({ excerpt }) => excerpt?.length);
    expect(
      lengthsOf(logAfter(long("a"), [entry(1, long("b")), entry(2), entry(3, { excerpt: "c" })])),
    ).toEqual([512, undefined, 1, 4_096]);
    const ten = Array.from({ length: 10 }, (_, i) => entry(i, { excerpt: "x".repeat(500) }));
    // 6,144 characters less the newest are 2,048: four of them, and 48 of a fifth.
    expect(lengthsOf(logAfter(long("a"), ten))).toEqual([
      ...Array(5).fill(undefined),
      48,
      ...Array(4).fill(500),
      4_096,
    ]);
    const twenty = Array.from({ length: 20 }, (_, i) => entry(i, long("x")));
    expect(lengthsOf(logAfter({}, twenty))).toEqual([
      ...Array(8).fill(undefined),
      ...Array(12).fill(512),
      undefined,
    ]);
    expect(logAfter({}, twenty)[0]).not.toHaveProperty("excerpt");
  });

  test("cuts no character in two", () => {
    const [cut] = logAfter({}, [entry(1, { excerpt: `${"x".repeat(511)}😀` })]);
    expect(cut?.excerpt).toBe(`${"x".repeat(511)}\ufffd`);
  });
});

describe("the row of a delivery without a record", () => {
  test("is the same as if it had been written when the event was accepted", () => {
    expect(currentRow(loadedDelivery())).toStrictEqual({
      ...{ destinationId: DESTINATION, eventId: 128, state: "waiting", reason: null, attempts: 0 },
      ...{ nextAttemptAt: null, generation: 0, firstAttemptAt: null, giveUpAt: START + 14 * DAY },
      ...{ endedAt: null, lastStatus: null, lastError: null, replay: null, log: [] },
    });
  });

  test("has the time at which the event is due, and its own limit", () => {
    const event = { deliverAt: START + HOUR, ttlSeconds: 60 };
    expect(currentRow(loadedDelivery({ event }))).toMatchObject({
      nextAttemptAt: START + HOUR,
      giveUpAt: START + HOUR + 60_000,
      hasOwnLimit: true,
    });
  });
});

describe("a stored row", () => {
  test("is used as it is, and recognized as more than a bit of a pack", () => {
    const row = { reason: "http_500" as const, attempts: 3 };
    const plain = loadedDelivery({ row });
    expect(currentRow(plain)).toStrictEqual(plain.row);
    expect(currentRow(loadedDelivery({ row, event: { ttlSeconds: 60 } }))).toMatchObject({
      hasOwnLimit: true,
    });
    const lost = loadedDelivery({ row: { state: "in_flight", reason: null } });
    expect(currentRow(lost)).toStrictEqual({ ...lost.row, hasLostSender: true });
  });

  const refusal = { reason: "hold", until: START + 7 } as const;
  test("waits, is in flight or ends with everything that was known of it", () => {
    const delivery = loadedDelivery({ row: { attempts: 3, log: [entry(START)] } });
    const waits = { ...delivery.row, state: "waiting", reason: "hold", nextAttemptAt: START + 7 };
    expect(waitingRow(delivery, refusal)).toStrictEqual(waits);
    expect(inFlightRow(delivery, START + 8)).toStrictEqual({
      ...{ ...delivery.row, state: "in_flight", reason: null, nextAttemptAt: START + 8 },
    });
    expect(overRow(delivery, "dead", "expired", START + 9)).toStrictEqual({
      ...{ ...delivery.row, state: "dead", reason: "expired", nextAttemptAt: null, endedAt: START + 9 },
    });
    expect(waitingDisposition(delivery, refusal)).toStrictEqual({ delivery, row: waits });
  });

  test("that already waits is not written again", () => {
    const delivery = loadedDelivery({ row: { state: "waiting" } });
    expect(waitingDisposition(delivery, refusal)).toStrictEqual({ delivery });
  });
});

describe("the counts of an attempt", () => {
  const metricOf = (attempt: Attempt) => finish(attempt, steady, 0.5).metric;

  test.each([
    [204, "2xx", "delivered"],
    [500, "5xx", "again"],
    [400, "4xx", "dead"],
  ])("with the answer %d are its result, its end and its duration", (status, result, end) => {
    const row = { attempts: 2 };
    expect(metricOf(attempted(status, { row }))).toMatchObject({ attempt: 3, result, end, tookMs: 200 });
  });

  test.each<[string, Given, number]>([
    ["a first one by when the event was due", {}, 10_000],
    ["a first one after its event's own time", { event: { deliverAt: START + 4_000 } }, 6_000],
    [
      "a first one that waited, by when the event was due",
      { row: { attempts: 0, nextAttemptAt: START } },
      10_000,
    ],
    [
      "a first one whose row has another time",
      { row: { attempts: 0, nextAttemptAt: START + 9_000 } },
      10_000,
    ],
    ["a retry by its own time", { row: { attempts: 1, nextAttemptAt: START + 9_000 } }, 1_000],
    ["a retry without a time as if it were in time", { row: { attempts: 1, nextAttemptAt: null } }, 0],
    ["one before its time as if it were in time", { row: { attempts: 1, nextAttemptAt: START + 99_000 } }, 0],
  ])("have the delay of %s", (_, given, lateMs) => {
    expect(metricOf(attempted(204, given)).lateMs).toBe(lateMs);
  });
});

test("a destination's own policy fixes how long its deliveries wait for a first attempt", () => {
  const destination: Partial<Destination> = { retry: { expire_unattempted_after: 60 } };
  expect(currentRow(loadedDelivery({ destination })).giveUpAt).toBe(START + 60_000);
});
