/** Which message delivers which delivery, and how those that are still open come again. */
import { describe, expect, test } from "vitest";
import type { BundlePart } from "../../src/core/bundle.ts";
import {
  ackOrRetry,
  attemptWaiting,
  distinct,
  groupMessages,
  messageGroupFinder,
  openDeliveriesOf,
  postpone,
  sendAlone,
  sendRetries,
  wakeUpAt,
} from "../../src/delivery/message-group.ts";
import type { LogLine } from "../../src/log.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";
import { START } from "../support/clock.ts";
import { loadedDelivery } from "../support/loaded-delivery.ts";
import { batchOf, fakeQueue, type Sent } from "../support/queues.ts";

const [A, B] = ["dst_a", "dst_b"];

function setUp() {
  const deliveries = fakeQueue<DeliveryMessage>();
  const log: LogLine[] = [];
  const services = { deliveries: deliveries.queue, log: (line: LogLine) => log.push(line), now: () => START };
  return { services: services as unknown as Services, deliveries, log };
}

/** The groups of messages, and the messages' outcomes. */
function grouped(bodies: readonly unknown[], attempts = 1) {
  const own = setUp();
  const { batch, results } = batchOf("breakwater-deliveries", bodies, attempts);
  const groups = groupMessages(own.services, batch);
  return { ...own, groups, results, parts: groups.map(({ parts }) => parts) };
}

function groupOf(body: DeliveryMessage, attempts = 1) {
  const { groups, ...own } = grouped([body], attempts);
  const [group] = groups;
  if (!group) throw new Error("The message names something");
  return { ...own, group };
}

const part = (bundle: number, destinations: readonly string[], indexes?: readonly number[]): BundlePart =>
  indexes ? { bundle, destinations, indexes } : { bundle, destinations };

describe("the messages of a batch", () => {
  test("that name different deliveries hold just those", () => {
    const bodies = [
      { bundles: [part(1, [A, B]), part(2, [A], [3, 4])] },
      { bundles: [part(2, [A], [0, 2])] },
      { bundles: [part(2, [B])] },
      { bundles: [part(3, [A])] },
    ];
    const { groups, parts, results } = grouped(bodies);
    expect(parts).toEqual(bodies.map(({ bundles }) => bundles));
    expect(groups.map(({ isWhole }) => isWhole)).toEqual([true, true, true, true]);
    expect(results).toEqual(Array(4).fill("left"));
  });

  test("that name the same delivery leave it to the first of them", () => {
    const { parts, groups, results } = grouped([
      { bundles: [part(1, [A], [5, 6])] },
      { bundles: [part(1, [A], [1, 2])] },
      { bundles: [part(1, [A], [0, 8])] },
      { bundles: [part(1, [A], [0, 9])] },
    ]);
    expect(parts).toEqual([
      [part(1, [A], [5, 6])],
      [part(1, [A], [1, 2])],
      [part(1, [A], [0, 0, 3, 4, 7, 8])],
      [part(1, [A], [9, 9])],
    ]);
    expect(groups.map(({ isWhole }) => isWhole)).toEqual([true, true, false, false]);
    expect(results).toEqual(Array(4).fill("left"));
  });

  test("that name a whole bundle leave single destinations to messages before them", () => {
    const { parts, groups, results } = grouped([
      { bundles: [part(1, [A], [0, 0])] },
      { bundles: [part(1, [A, B])] },
      { bundles: [part(1, [B, "dst_c"])] },
      { bundles: [part(1, [A, B, "dst_c"])] },
    ]);
    expect(parts).toEqual([
      [part(1, [A], [0, 0])],
      [part(1, [A], [1, 127]), part(1, [B])],
      [part(1, ["dst_c"])],
    ]);
    expect(groups.map(({ isWhole }) => isWhole)).toEqual([true, false, false]);
    expect(results).toEqual(["left", "left", "left", "acked"]);
  });

  test.each<[string, readonly BundlePart[], readonly BundlePart[]]>([
    ["first part", [part(1, [A]), part(2, [A])], [part(2, [A])]],
    ["last part", [part(2, [A]), part(1, [A])], [part(2, [A])]],
    ["first destination", [part(1, [A, B])], [part(1, [B])]],
    ["second part's first destination", [part(2, [A]), part(1, [A, B])], [part(2, [A]), part(1, [B])]],
  ])("that lose their %s to another are incomplete", (_, bundles, left) => {
    const { parts, groups } = grouped([{ bundles: [part(1, [A])] }, { bundles }]);
    expect(parts).toEqual([[part(1, [A])], left]);
    expect(groups.map(({ isWhole }) => isWhole)).toEqual([true, false]);
  });

  test("with different owners hold the same delivery together", () => {
    const bundles = [part(1, [A])];
    const { groups, results } = grouped([
      { bundles },
      { bundles, owner: "x" },
      { bundles, owner: "y" },
      { bundles, owner: "x" },
    ]);
    expect(groups.map(({ owner, isWhole }) => [owner, isWhole])).toEqual([
      [undefined, true],
      ["x", true],
      ["y", true],
    ]);
    expect(results).toEqual(["left", "left", "left", "acked"]);
  });

  test("that name nothing are acknowledged, and unreadable ones are dropped and logged", () => {
    const { groups, results, log } = grouped([{ bundles: [] }, "text", { bundles: [part(1, [A])] }]);
    expect(groups).toHaveLength(1);
    expect(results).toEqual(["acked", "acked", "left"]);
    expect(log).toEqual([{ what: "message_unreadable", message: "message-1" }]);
  });
});

describe("a delivery is delivered", () => {
  const bodies = [
    { bundles: [part(1, [A], [0, 3])], owner: "x" },
    { bundles: [part(2, [A, B]), part(1, [A], [2, 9])] },
    { bundles: [part(1, [A], [0, 0, 9, 9])], owner: "y" },
  ];
  const placeOf = (given: Parameters<typeof loadedDelivery>[0]) => {
    const { groups } = grouped(bodies);
    const found = messageGroupFinder(groups, START)(loadedDelivery({ destination: { id: A }, ...given }));
    return found && groups.indexOf(found);
  };
  const at = (bundle: number, index: number) => ({ event: { id: bundle * 128 + index } });
  const retry = (owner: string | undefined, inMs: number | null = 1) => ({
    state: "retrying" as const,
    nextAttemptAt: inMs === null ? null : START + inMs,
    owner,
  });

  test("by the first message that names it, if nothing is recorded of it, or it is not a retry", () => {
    expect([0, 2, 4, 9, 10].map((index) => placeOf(at(1, index)))).toEqual([0, 0, 1, 1, undefined]);
    expect([0, 99].map((index) => placeOf(at(2, index)))).toEqual([1, 1]);
    expect(placeOf({ ...at(1, 2), row: { ...retry("y"), state: "waiting" } })).toBe(0);
    expect(placeOf({ ...at(1, 2), row: { ...retry("y"), state: "delivered" } })).toBe(0);
  });

  test("by no message that names another bundle, or another destination", () => {
    expect(placeOf(at(3, 0))).toBeUndefined();
    expect(placeOf({ ...at(1, 0), destination: { id: B } })).toBeUndefined();
    expect(placeOf({ ...at(2, 0), destination: { id: B } })).toBe(1);
  });

  test("as a retry by the message with its owner, or as one in flight", () => {
    expect(placeOf({ ...at(1, 0), row: retry("x") })).toBe(0);
    expect(placeOf({ ...at(1, 0), row: retry("y") })).toBe(2);
    expect(placeOf({ ...at(1, 2), row: retry(undefined) })).toBe(1);
    expect(placeOf({ ...at(1, 0), row: retry("y", -1) })).toBe(2);
    expect(placeOf({ ...at(1, 0), row: { ...retry("y"), state: "in_flight" } })).toBe(2);
  });

  test("by the message that takes waiting deliveries, only while it waits", () => {
    const bodies = [
      { bundles: [part(1, [A])] },
      { bundles: [part(1, [A])], owner: "x" },
      { bundles: [part(1, [A])], owner: "by hand", takesWaiting: true },
    ];
    const { groups } = grouped(bodies);
    const placeIn = (row?: NonNullable<Parameters<typeof loadedDelivery>[0]>["row"]) => {
      const one = loadedDelivery({ destination: { id: A }, ...at(1, 0), ...(row && { row }) });
      const found = messageGroupFinder(groups, START)(one);
      return found && groups.indexOf(found);
    };
    expect(placeIn({ ...retry("x"), state: "waiting" })).toBe(2);
    expect(placeIn(retry("x"))).toBe(1);
    expect(placeIn({ ...retry("x"), state: "delivered" })).toBe(0);
    expect(placeIn()).toBe(0);
  });

  test("as a retry by no other message before it is overdue, and then by the first that names it", () => {
    expect(placeOf({ ...at(1, 0), row: retry("elsewhere", 1) })).toBeUndefined();
    expect(placeOf({ ...at(1, 0), row: retry("elsewhere", 0) })).toBe(0);
    expect(placeOf({ ...at(1, 4), row: retry("elsewhere", -1) })).toBe(1);
    expect(placeOf({ ...at(1, 0), row: retry("elsewhere", null) })).toBe(0);
    expect(placeOf({ ...at(1, 10), row: retry("elsewhere", -1) })).toBeUndefined();
  });
});

test("a delivery that messages of several owners name appears once, and so does each of another event or destination", () => {
  const twice = [
    loadedDelivery(),
    loadedDelivery(),
    loadedDelivery({ event: { id: 129 } }),
    loadedDelivery({ destination: { id: B } }),
  ];
  const bundles = [part(1, [A])];
  for (const first of [{}, { owner: "y" }]) {
    const one = distinct(
      twice,
      grouped([
        { bundles, ...first },
        { bundles, owner: "x" },
      ]).groups,
    );
    expect(one.map(({ event, destination }) => [event.id, destination.id])).toEqual(
      [0, 2, 3].map((i) => [twice[i]?.event.id, twice[i]?.destination.id]),
    );
  }
});

describe("the open part of dispositions", () => {
  const open = (row: object | undefined, retryAt?: number, own?: object) => {
    const delivery = loadedDelivery({ ...(own && { row: own }) });
    const written = row && loadedDelivery({ row }).row;
    return openDeliveriesOf([{ delivery, ...(written && { row: written }), ...(retryAt && { retryAt }) }]);
  };
  const at = START + 100_000;
  const attempted = {
    nextAttemptAt: at,
    log: [
      { at: START - 2, latencyMs: 0 },
      { at: START - 1, latencyMs: 0 },
      { at: START, latencyMs: 20_000 },
    ],
  };

  test("is empty if there is no time to come again", () => {
    expect(open(attempted)).toEqual([]);
  });

  test("names the delivery, its time and its owner", () => {
    const owned = { ...attempted, owner: "x" };
    expect(open(owned, at)).toMatchObject([
      { key: { eventId: 128, destinationId: "dst_00000000000000000001" }, at, owner: "x" },
    ]);
    expect(open(undefined, at, owned)).toMatchObject([{ at, owner: "x" }]);
    expect(open(undefined, at)).toMatchObject([{ at, owner: undefined }]);
  });

  test("may come later by a twentieth of its delay after a failure, and else by a second", () => {
    const slackOf = (...given: Parameters<typeof open>) => open(...given)[0]?.slackMs;
    // 80 s after the end of its last attempt.
    expect(slackOf(attempted, at)).toBe(4_000);
    expect(slackOf(undefined, at, attempted)).toBe(4_000);
    expect(slackOf({ ...attempted, state: "waiting" }, at)).toBe(1_000);
    expect(slackOf(attempted, at + 1)).toBe(1_000);
    expect(slackOf({ ...attempted, log: [] }, at)).toBe(1_000);
    expect(slackOf({ ...attempted, log: [{ at: at - 1_000, latencyMs: 0 }] }, at)).toBe(1_000);
    expect(slackOf(undefined, at)).toBe(1_000);
  });
});

const open = (at: number, { slackMs = 1_000, owner, event = 128, destination = A }: Partial<Open> = {}) => ({
  key: { eventId: event, destinationId: destination },
  at: START + at,
  slackMs,
  owner,
});
type Open = { slackMs: number; owner: string | undefined; event: number; destination: string };

describe("those that are due together", () => {
  test.each<[string, readonly (readonly [at: number, slackMs: number])[], number]>([
    ["one alone at its time", [[7_000, 1_000]], 7_000],
    [
      "the last that is due before the first has used its slack",
      [
        [1_000, 1_000],
        [1_999, 50],
        [2_000, 9_000],
      ],
      2_000,
    ],
    [
      "the first before one that is due after its slack",
      [
        [3_000, 9_000],
        [1_000, 1_000],
        [2_001, 0],
      ],
      1_000,
    ],
    [
      "the one whose slack ends first, which need not be the first",
      [
        [1_000, 9_000],
        [2_000, 100],
        [2_101, 5_000],
      ],
      2_000,
    ],
  ])("are woken up with %s", (_, all, at) => {
    expect(wakeUpAt(all.map(([due, slackMs]) => ({ at: START + due, slackMs })))).toBe(START + at);
  });
});

describe("a message whose deliveries", () => {
  const body = { bundles: [part(1, [A])] };

  test("are completed is acknowledged", async () => {
    const { services, group, results, deliveries } = groupOf(body);
    await ackOrRetry(services, group);
    expect(results).toEqual(["acked"]);
    expect(deliveries.taken()).toEqual([]);
  });

  test("are still open comes again when the first group of them is due", async () => {
    const { services, group, results, deliveries } = groupOf(body, 89);
    await ackOrRetry(services, group, [open(60_000), open(5_300), open(5_900)]);
    expect(results).toEqual([{ retryIn: 6 }]);
    expect(deliveries.taken()).toEqual([]);
  });

  test("are still open is replaced by messages for those only, before it can become a dead letter", async () => {
    const { services, group, results, deliveries } = groupOf({ ...body, owner: "x" }, 90);
    const some = [
      open(60_000, { owner: "x" }),
      open(5_300, { owner: "x", event: 130 }),
      open(5_900, { event: 131 }),
    ];
    await ackOrRetry(services, group, some);
    expect(results).toEqual(["acked"]);
    expect(deliveries.taken()).toStrictEqual([
      { body: { bundles: [part(1, [A], [2, 2])], owner: "x" }, delaySeconds: 6 },
      { body: { bundles: [part(1, [A], [0, 0])], owner: "x" }, delaySeconds: 60 },
      { body: { bundles: [part(1, [A], [3, 3])] }, delaySeconds: 6 },
    ]);
  });

  test("are still open comes again even if it could not be replaced", async () => {
    const { services, group, results, deliveries, log } = groupOf(body, 90);
    deliveries.break(true);
    await ackOrRetry(services, group, [open(5_300)]);
    expect(results).toEqual([{ retryIn: 6 }]);
    expect(log).toMatchObject([{ what: "replace_failed" }]);
  });

  test.each<[string, object]>([
    ["of a bundle", {}],
    ["with an owner", { owner: "x" }],
    ["that takes what waits", { owner: "x", takesWaiting: true }],
  ])("%s are postponed comes again with all of them after a pause, or is replaced by one like it", async (_, owner) => {
    const late = groupOf({ ...body, ...owner }, 89);
    await postpone(late.services, late.group, 40);
    expect(late.results).toEqual([{ retryIn: 40 }]);
    expect(late.deliveries.taken()).toEqual([]);

    const last = groupOf({ ...body, ...owner }, 90);
    await postpone(last.services, last.group, 40);
    expect(last.results).toEqual(["acked"]);
    expect(last.deliveries.taken()).toStrictEqual([{ body: { ...body, ...owner }, delaySeconds: 40 }]);

    const broken = groupOf({ ...body, ...owner }, 90);
    broken.deliveries.break(true);
    await postpone(broken.services, broken.group, 40);
    expect(broken.results).toEqual([{ retryIn: 40 }]);
  });
});

test("deliveries that wait get messages of a hundred each, of which none has another's owner", async () => {
  const { services, deliveries } = setUp();
  const keys = Array.from({ length: 5_000 }, (_, i) => ({ eventId: 128 * (i + 1), destinationId: A }));
  await attemptWaiting(services, keys);
  const sent = deliveries.taken().map(({ body }) => body);
  expect(sent.map(({ bundles }) => bundles.length)).toEqual(Array(50).fill(100));
  expect(new Set(sent.map(({ owner }) => owner)).size).toBe(50);
  expect(sent.every(({ takesWaiting }) => takesWaiting)).toBe(true);
});

describe("retries that have no message", () => {
  const named = (sent: readonly Sent<DeliveryMessage>[]) =>
    sent.map(({ body: { bundles, owner }, delaySeconds }) => [bundles, owner, delaySeconds]);
  const dispositionOf = (event: number, inMs: number, owner?: string) => {
    const delivery = loadedDelivery({
      event: { id: event },
      destination: { id: A },
      row: { nextAttemptAt: null, owner },
    });
    return { delivery, retryAt: START + inMs };
  };

  test("get messages by their owners, one for those that are due together", async () => {
    const { services, deliveries } = setUp();
    await sendRetries(services, [
      dispositionOf(128, 30_000, "x"),
      dispositionOf(129, 10_000),
      dispositionOf(130, 30_900, "x"),
      dispositionOf(131, 31_001, "x"),
      dispositionOf(256, 30_000, "x"),
      { delivery: loadedDelivery() },
    ]);
    expect(named(deliveries.taken())).toEqual([
      [[part(1, [A], [0, 0, 2, 2]), part(2, [A], [0, 0])], "x", 31],
      [[part(1, [A], [3, 3])], "x", 32],
      [[part(1, [A], [1, 1])], undefined, 10],
    ]);
  });

  test("get a message each if they are to come alone", async () => {
    const { services, deliveries } = setUp();
    const all = Array.from({ length: 101 }, (_, i) =>
      open(1_000 * i, { event: 128 + i, ...(i < 2 && { owner: "x" }) }),
    );
    await sendAlone(services, all);
    const sent = deliveries.taken();
    expect(sent).toHaveLength(101);
    expect(sent[0]).toStrictEqual({ body: { bundles: [part(1, [A], [0, 0])], owner: "x" }, delaySeconds: 0 });
    expect(sent[100]).toStrictEqual({ body: { bundles: [part(1, [A], [100, 100])] }, delaySeconds: 100 });
  });
});
