/** One write at a time: reports during a write go together in the next, and a failed write is repeated. */
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { eventAt } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import type { Disposition } from "../../src/delivery/outcome.ts";
import { overRow } from "../../src/delivery/outcome.ts";
import { LINGER_MS, Recorder, RIDE_MS, report, STALLED_MS } from "../../src/delivery/recorder.ts";
import type { LogLine } from "../../src/log.ts";
import type { Services } from "../../src/services.ts";
import { standingClock } from "../support/clock.ts";
import { loadedDelivery } from "../support/loaded-delivery.ts";

let clock: ReturnType<typeof standingClock>;
let log: LogLine[];
let random: number;
let services: Services;
/** The trips to D1 that have begun. */
let trips: { answer: (how?: "fails" | "lost") => void }[];
let stored: () => number[];
let sql: (text: string) => unknown[];

beforeEach(() => {
  clock = standingClock();
  log = [];
  random = 0.5;
  trips = [];
  const d1 = memoryD1();
  const db = d1.bindingFor(async (_, work) => {
    const { promise, resolve } = Promise.withResolvers<"fails" | "lost" | undefined>();
    trips.push({ answer: resolve });
    const fault = await promise;
    if (fault === "fails") throw new Error("D1 is away");
    const result = work();
    if (fault === "lost") throw new Error("The answer is lost");
    return result;
  });
  sql = (text) => d1.direct.prepare(text).all();
  stored = () =>
    sql("SELECT event_id AS id FROM deliveries ORDER BY event_id").map((row) => (row as { id: number }).id);
  services = {
    ...{
      db,
      now: clock.now,
      sleep: clock.sleep,
      random: () => random,
      log: (line: LogLine) => log.push(line),
    },
  } as unknown as Services;
});

/** Until nothing proceeds without D1 or the clock. */
const calm = () => new Promise((resolve) => setTimeout(resolve));

/** Has D1 answer the nth trip. */
async function answer(nth: number, how?: "fails" | "lost"): Promise<void> {
  await calm();
  trips[nth]?.answer(how);
  await calm();
}

/** A delivery that has ended as dead, or nothing that is to be written. */
function ending(event: number, { gone = false, hasRow = true, destination = "dst_a" } = {}): Disposition {
  const delivery = loadedDelivery({ event: { id: event }, destination: { id: destination } });
  if (!hasRow) return { delivery };
  return { delivery, row: overRow(delivery, "dead", "expired", clock.now()), gone };
}

/** The results of reports, in their order. */
function watched() {
  const states: string[] = [];
  const watch = <T>(promise: Promise<T>) => {
    const i = states.push("open") - 1;
    promise.then(
      (paused) => {
        states[i] =
          Array.isArray(paused) && paused.length > 0 ? `paused ${paused.map(({ id }) => id)}` : "done";
      },
      () => {
        states[i] = "failed";
      },
    );
  };
  return { states, watch };
}

describe("a report", () => {
  test("is written at once, and is done when it is on record", async () => {
    const { states, watch } = watched();
    watch(report(services, [ending(128), ending(129, { hasRow: false }), ending(130)]));
    expect(trips).toHaveLength(1);
    expect(states).toEqual(["open"]);
    await answer(0);
    expect(states).toEqual(["done"]);
    expect(stored()).toEqual([128, 130]);
    expect(log).toEqual([]);
  });

  test("without content is done at once, without a write", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([]));
    watch(recorder.report([ending(128, { hasRow: false })], LINGER_MS));
    await calm();
    clock.pass(LINGER_MS);
    await calm();
    expect(states).toEqual(["done", "done"]);
    expect(trips).toEqual([]);
  });

  test("during a write goes into the next one, together with all others of that time", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)]));
    watch(recorder.report([ending(129)]));
    watch(recorder.report([ending(130)], LINGER_MS));
    watch(recorder.report([]));
    await calm();
    expect(trips).toHaveLength(1);
    await answer(0);
    expect(states).toEqual(["done", "open", "open", "done"]);
    expect(trips).toHaveLength(2);
    expect(stored()).toEqual([128]);
    await answer(1);
    expect(states).toEqual(Array(4).fill("done"));
    expect(stored()).toEqual([128, 129, 130]);
    watch(recorder.report([ending(131)]));
    await answer(2);
    expect(stored()).toEqual([128, 129, 130, 131]);
    expect(trips).toHaveLength(3);
  });
});

describe("a report whose neighbours are near", () => {
  test("waits ten milliseconds for them, and is written with them", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)], LINGER_MS));
    clock.pass(LINGER_MS - 1);
    watch(recorder.report([ending(129)], LINGER_MS));
    await calm();
    expect(trips).toEqual([]);
    clock.pass(1);
    await answer(0);
    expect(states).toEqual(["done", "done"]);
    expect(stored()).toEqual([128, 129]);
    clock.pass(60_000);
    await calm();
    expect(trips).toHaveLength(1);
  });

  test("is written at once with the last of them, and not a second time after its wait", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)], LINGER_MS));
    watch(recorder.report([ending(129)]));
    await calm();
    expect(trips).toHaveLength(1);
    watch(recorder.report([ending(130)], LINGER_MS));
    clock.pass(LINGER_MS);
    await calm();
    expect(trips).toHaveLength(1);
    await answer(0);
    await answer(1);
    expect(states).toEqual(["done", "done", "done"]);
    expect(stored()).toEqual([128, 129, 130]);
    clock.pass(60_000);
    await calm();
    expect(trips).toHaveLength(2);
  });

  test("is written when the last of them has nothing to write", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)], LINGER_MS));
    watch(recorder.report([]));
    await answer(0);
    expect(states).toEqual(["done", "done"]);
    expect(stored()).toEqual([128]);
  });

  test("waits for others after an earlier write too", async () => {
    const { watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)], LINGER_MS));
    clock.pass(LINGER_MS);
    await answer(0);
    watch(recorder.report([ending(129)], LINGER_MS));
    await calm();
    expect(trips).toHaveLength(1);
    clock.pass(LINGER_MS);
    await answer(1);
    expect(stored()).toEqual([128, 129]);
  });
});

describe("a report that can wait", () => {
  test("is written with the next of the others", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)], RIDE_MS));
    clock.pass(RIDE_MS - LINGER_MS - 1);
    watch(recorder.report([ending(129)], LINGER_MS));
    await calm();
    expect(trips).toEqual([]);
    clock.pass(LINGER_MS);
    await answer(0);
    expect(states).toEqual(["done", "done"]);
    clock.pass(60_000);
    await calm();
    expect(trips).toHaveLength(1);
  });

  test("waits no longer than a quarter of a second for them", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)], RIDE_MS));
    clock.pass(RIDE_MS - 1);
    await calm();
    expect(trips).toEqual([]);
    clock.pass(1);
    await answer(0);
    expect(states).toEqual(["done"]);
  });
});

describe("a report that can wait, behind one that did not wait to the end", () => {
  test("is not written when that one's wait would be over", async () => {
    const { watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)], LINGER_MS));
    watch(recorder.report([ending(129)]));
    await answer(0);
    watch(recorder.report([ending(130)], RIDE_MS));
    clock.pass(LINGER_MS);
    await calm();
    expect(trips).toHaveLength(1);
    clock.pass(RIDE_MS - LINGER_MS);
    await answer(1);
    expect(stored()).toEqual([128, 129, 130]);
  });
});

describe("a write that hangs", () => {
  test("keeps later reports waiting for two seconds at most: then they are written beside it", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)]));
    clock.pass(STALLED_MS / 2);
    watch(recorder.report([ending(129)]));
    watch(recorder.report([ending(130)], RIDE_MS));
    clock.pass(STALLED_MS / 2 - 1);
    await calm();
    expect(trips).toHaveLength(1);
    clock.pass(1);
    await calm();
    expect(trips).toHaveLength(2);
    await answer(1);
    expect(states).toEqual(["open", "done", "done"]);
    expect(stored()).toEqual([129, 130]);
    await answer(0);
    expect(states).toEqual(["done", "done", "done"]);
    expect(trips).toHaveLength(2);
  });

  test("is followed by one write at a time, which it does not rejoin when it finally ends", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)]));
    watch(recorder.report([ending(129)]));
    clock.pass(STALLED_MS);
    await calm();
    watch(recorder.report([ending(130)]));
    await answer(0);
    expect(states).toEqual(["done", "open", "open"]);
    expect(trips).toHaveLength(2);
    await answer(1);
    await answer(2);
    expect(states).toEqual(["done", "done", "done"]);
    expect(stored()).toEqual([128, 129, 130]);
    watch(recorder.report([ending(131)]));
    await answer(3);
    expect(states.at(-1)).toBe("done");
  });

  test("is not confused with a later one that has not hung for as long", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)]));
    watch(recorder.report([ending(129)]));
    clock.pass(STALLED_MS / 2);
    await answer(0);
    watch(recorder.report([ending(130)]));
    clock.pass(STALLED_MS / 2);
    await calm();
    expect(trips).toHaveLength(2);
    clock.pass(STALLED_MS / 2);
    await calm();
    expect(trips).toHaveLength(3);
    await answer(1);
    await answer(2);
    expect(states).toEqual(["done", "done", "done"]);
  });

  test("to one database keeps no report for another waiting", async () => {
    const hanging = memoryD1().bindingFor(() => new Promise(() => {}));
    const { states, watch } = watched();
    const recorder = new Recorder({ ...services, further: [hanging] });
    const far = eventAt(beforeFirstBundleOf(1) + 1, 0);
    watch(recorder.report([ending(far)]));
    watch(recorder.report([ending(128)]));
    await answer(0);
    watch(recorder.report([ending(129), ending(far + 1)]));
    await answer(1);
    expect(states).toEqual(["open", "done", "open"]);
    expect(stored()).toEqual([128, 129]);
  });
});

describe("a write that fails", () => {
  test.each([
    [0, 250, 500],
    [0.5, 188, 375],
    [1, 125, 250],
  ])("is repeated twice, after pauses that are shortened by chance (%d)", async (chance, first, second) => {
    random = chance;
    const { states, watch } = watched();
    watch(report(services, [ending(128), ending(129)]));
    await answer(0, "fails");
    clock.pass(first - 1);
    await calm();
    expect(trips).toHaveLength(1);
    clock.pass(1);
    await answer(1, "fails");
    clock.pass(second - 1);
    await calm();
    expect(trips).toHaveLength(2);
    expect(states).toEqual(["open"]);
    clock.pass(1);
    await answer(2);
    expect(states).toEqual(["done"]);
    expect(stored()).toEqual([128, 129]);
    const line = { what: "record_failed", deliveries: 2, error: "Error: D1 is away" };
    expect(log).toEqual([
      { ...line, attempt: 1 },
      { ...line, attempt: 2 },
    ]);
  });

  test("for the third time fails its reports, and none that come after", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)]));
    await answer(0, "fails");
    clock.pass(1_000);
    await answer(1, "fails");
    clock.pass(1_000);
    await answer(2, "fails");
    expect(states).toEqual(["failed"]);
    clock.pass(60_000);
    await calm();
    expect(trips).toHaveLength(3);
    expect(log.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    watch(recorder.report([ending(129)]));
    await answer(3);
    expect(states).toEqual(["failed", "done"]);
    expect(stored()).toEqual([129]);
  });

  test("is repeated with all of its reports, and finally with each alone, so that one that D1 rejects does not block others", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)]));
    for (const event of [129, 130, 131]) watch(recorder.report([ending(event)]));
    await answer(0);
    await answer(1, "fails");
    clock.pass(1_000);
    await answer(2, "fails");
    clock.pass(1_000);
    await answer(3);
    await answer(4, "fails");
    await answer(5);
    expect(states).toEqual(["done", "done", "failed", "done"]);
    expect(stored()).toEqual([128, 129, 131]);
    expect(trips).toHaveLength(6);
    expect(log.map(({ deliveries, attempt }) => [deliveries, attempt])).toEqual([
      [3, 1],
      [3, 2],
      [1, 3],
    ]);
  });
});

describe("a delivery that ends as dead and holds its line", () => {
  /** One that has ended, at the head of a line. */
  function ended(event: number, state: "dead" | "cancelled", holds: boolean): Disposition {
    const delivery = {
      ...loadedDelivery({ event: { id: event } }),
      place: { line: "x", before: null, holds },
    };
    return { delivery, row: overRow(delivery, state, "expired", clock.now()) };
  }
  /** The published news, and the number of calls. */
  let held: unknown[];
  let calls: number;
  beforeEach(() => {
    held = [];
    calls = 0;
    const notify: Services["notify"] = async (_, news) => void held.push(...(news.held ?? []));
    const background = () => {
      calls += 1;
    };
    services = { ...services, notify, background };
  });

  test("is published once it is recorded, and nothing else is", async () => {
    const { delivery } = ending(131);
    const dispositions = [
      ended(128, "dead", true),
      ended(129, "dead", false),
      ended(130, "cancelled", true),
      { delivery },
      ending(132),
    ];
    void report(services, dispositions);
    await calm();
    expect(held).toEqual([]);
    await answer(0);
    expect(held).toEqual([{ event: 128, destination: loadedDelivery().destination }]);
  });

  test("is the only one that is published: without it there is no call", async () => {
    void report(services, [ending(128), ended(129, "dead", true)]);
    await answer(0);
    expect(calls).toBe(1);
    void report(services, [ending(130), ended(131, "cancelled", true)]);
    await answer(1);
    expect(stored()).toContain(131);
    expect([held.length, calls]).toEqual([1, 1]);
  });
});

test("a delivery that ends in its line has the next one sent, once it is recorded", async () => {
  sql(
    `INSERT INTO bundles (id, tokens, accepted_at, count, planned, plan, header, body)
     VALUES (1, '[]', 0, 3, 3, '{}', '{"lines": {"dst_a": [["x", 9, 0, 0, 1]]}}', x'')`,
  );
  const sent: unknown[] = [];
  const deliveries = { sendBatch: async (messages: Iterable<unknown>) => void sent.push(...messages) };
  services = { ...services, deliveries } as unknown as Services;
  services = { ...services, background: () => {} };
  const end = (event: number) => {
    const delivery = {
      ...loadedDelivery({ event: { id: event }, destination: { id: "dst_a" } }),
      place: { line: "x", before: null, holds: false },
    };
    return report(services, [{ delivery, row: overRow(delivery, "dead", "expired", clock.now()) }]);
  };
  void end(128);
  await calm();
  expect(sent).toEqual([]);
  await answer(0);
  const next = { bundles: [{ bundle: 1, destinations: ["dst_a"], indexes: [1, 1] }], takesWaiting: true };
  expect(sent).toMatchObject([{ body: next }]);
  void end(129);
  await answer(1);
  expect([sent.length, log]).toEqual([1, []]);
});

describe("destinations that are gone", () => {
  beforeEach(() => {
    for (const id of ["dst_a", "dst_b", "dst_c"])
      sql(
        `INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
         VALUES ('${id}', 'acme', 'https://${id}.example/', 'x', 0, 0)`,
      );
  });
  const paused = () =>
    sql("SELECT id FROM destinations WHERE status = 'paused' ORDER BY id").map(
      (row) => (row as { id: string }).id,
    );

  test("are paused with the write, and each pause goes to one of the reports that requested it", async () => {
    const { states, watch } = watched();
    const recorder = new Recorder(services);
    watch(recorder.report([ending(128)]));
    watch(recorder.report([ending(129, { gone: true }), ending(130, { gone: true })]));
    watch(recorder.report([ending(131, { gone: true }), ending(132, { gone: true, destination: "dst_b" })]));
    watch(recorder.report([ending(133, { destination: "dst_c" })]));
    await answer(0);
    await answer(1);
    expect(states).toEqual(["done", "paused dst_a", "paused dst_b", "done"]);
    expect(paused()).toEqual(["dst_a", "dst_b"]);
  });

  test("are paused once, and their pause is reported, even if the first answer of D1 is lost", async () => {
    const { states, watch } = watched();
    watch(report(services, [ending(128, { gone: true })]));
    await answer(0, "lost");
    expect(paused()).toEqual(["dst_a"]);
    clock.pass(1_000);
    await answer(1);
    expect(states).toEqual(["paused dst_a"]);
  });

  test("are paused even if nothing else is to be written", async () => {
    const { states, watch } = watched();
    const { delivery } = ending(128);
    watch(report(services, [{ delivery, gone: true }]));
    await answer(0);
    expect(states).toEqual(["paused dst_a"]);
  });
});
