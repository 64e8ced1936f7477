import { expect, test } from "vitest";
import { CONNECTIONS } from "../../src/core/lease.ts";
import { noCredentials } from "../../src/delivery/authorization.ts";
import { connections, sendingInTurn } from "../../src/delivery/connections.ts";
import { call } from "../../src/delivery/http.ts";
import type { Services } from "../../src/services.ts";
import { strictFetch, strictQueue } from "../../tools/strict/bindings.ts";
import { Invocation } from "../../tools/strict/invocation.ts";

/** Tasks that run until they are ended, over connections that so many destinations share. */
function track(groups: number, kept: "one" | "each" = "one") {
  const shared = connections(groups, kept);
  const running: { group: string; end: () => void }[] = [];
  let most = 0;

  function start(group: string): Promise<void> {
    return shared.run(group, () => {
      return new Promise<void>((resolve) => {
        const task = {
          group,
          end: () => {
            running.splice(running.indexOf(task), 1);
            resolve();
          },
        };
        running.push(task);
        most = Math.max(most, running.length);
      });
    });
  }

  return {
    shared,
    start,
    startMany: (group: string, count: number) => {
      for (let i = 0; i < count; i++) void start(group);
    },
    runningOf: (group: string) => running.filter((task) => task.group === group).length,
    endOne: async (group: string) => {
      running.find((task) => task.group === group)?.end();
      await calm();
    },
    most: () => most,
  };
}

/** Until every promise that can resolve has resolved. */
const calm = () => new Promise((resolve) => setTimeout(resolve));

test("a task has a free connection at once, and the last one only if its destination has none", () => {
  const { startMany, runningOf } = track(2);
  startMany("a", 4);
  expect(runningOf("a")).toBe(4);
  startMany("b", 1);
  expect(runningOf("b")).toBe(1);
});

test("connections run five tasks at once and no more: the sixth of an invocation is left free", async () => {
  const { startMany, endOne, most } = track(20);
  for (let i = 0; i < 20; i++) startMany(`group ${i}`, 5);
  for (let i = 0; i < 20; i++) {
    await calm();
    await endOne(`group ${i}`);
  }
  expect(CONNECTIONS).toBe(5);
  expect(most()).toBe(5);
});

test("connections reserved for each destination go to none that already holds one, until it has fewer neighbours", async () => {
  const { startMany, runningOf, shared } = track(5, "each");
  startMany("first", 5);
  await calm();
  expect(runningOf("first")).toBe(1);
  for (const other of ["second", "third", "fourth"]) startMany(other, 1);
  await calm();
  expect([runningOf("first"), runningOf("fourth")]).toEqual([1, 1]);
  shared.shareAmong(4);
  await calm();
  expect(runningOf("first")).toBe(2);
});

test("all five connections go to a destination that is alone", async () => {
  const { startMany, runningOf } = track(1);
  startMany("a", 10);
  await calm();
  expect(runningOf("a")).toBe(5);
});

test("the last connection is reserved for the other destinations, even before they have a task", async () => {
  const { startMany, runningOf } = track(2);
  startMany("hangs", 100);
  await calm();
  expect(runningOf("hangs")).toBe(4);
  startMany("comes later", 1);
  await calm();
  expect(runningOf("comes later")).toBe(1);
});

test("the last connection stays reserved between two attempts of a destination that makes one after the other", async () => {
  const { start, startMany, runningOf, endOne } = track(2);
  startMany("hangs", 100);
  for (let i = 0; i < 10; i++) {
    const attempt = start("one by one");
    await calm();
    expect(runningOf("one by one")).toBe(1);
    await endOne("one by one");
    await attempt;
  }
});

test("a free connection goes to the destination that holds the fewest", async () => {
  const { startMany, runningOf, endOne } = track(3);
  startMany("a", 10);
  startMany("b", 10);
  await calm();
  expect([runningOf("a"), runningOf("b")]).toEqual([4, 1]);
  for (let i = 0; i < 3; i++) await endOne("a");
  expect(runningOf("b")).toBeGreaterThanOrEqual(2);
  startMany("c", 1);
  await endOne("a");
  expect(runningOf("c")).toBe(1);
});

test("a free connection goes to the first of those that hold the fewest, wherever they wait", async () => {
  const { startMany, runningOf, endOne } = track(5);
  startMany("a", 3);
  startMany("b", 1);
  startMany("c", 1);
  for (const group of ["b", "a", "d", "e", "b"]) startMany(group, 1);
  await calm();
  expect(["a", "b", "c", "d", "e"].map(runningOf)).toEqual([3, 1, 1, 0, 0]);
  await endOne("a");
  expect(["a", "b", "c", "d", "e"].map(runningOf)).toEqual([2, 1, 1, 1, 0]);
  await endOne("c");
  expect(["a", "b", "c", "d", "e"].map(runningOf)).toEqual([2, 1, 0, 1, 1]);
});

test("a destination that is left alone gets all connections as soon as one is free", async () => {
  const { shared, startMany, runningOf, endOne } = track(2);
  startMany("a", 10);
  await calm();
  expect(runningOf("a")).toBe(4);
  shared.shareAmong(1);
  await endOne("a");
  expect(runningOf("a")).toBe(5);
});

test("a task that throws frees its connection", async () => {
  const { shared } = track(1);
  for (let i = 0; i < 20; i++) {
    await expect(shared.run("a", () => Promise.reject(new Error("broke")))).rejects.toThrow("broke");
  }
  await expect(shared.run("a", async () => "through")).resolves.toBe("through");
});

test("a task that frees its connection early lets the next begin, and frees it once", async () => {
  const { shared, startMany, runningOf } = track(1);
  const ended = Promise.withResolvers<void>();
  const reading = shared.run("reads a body", async (free) => {
    free();
    free();
    await ended.promise;
  });
  startMany("a", 10);
  await calm();
  expect(runningOf("a")).toBe(CONNECTIONS);
  ended.resolve();
  await reading;
  await calm();
  expect(runningOf("a")).toBe(CONNECTIONS);
});

test("an exchange has its connection until the headers have arrived, and not while its body is read", async () => {
  const { shared, startMany, runningOf } = track(1);
  let body: ReadableStreamDefaultController<Uint8Array> | undefined;
  const slow = new ReadableStream<Uint8Array>({
    start: (controller) => {
      body = controller;
    },
  });
  const headers = Promise.withResolvers<Response>();
  const services = { now: () => 0 } as unknown as Services;
  const order = {
    post: () => headers.promise,
    type: "order.paid",
    headers: async () => ({}),
    credentials: noCredentials,
    timeoutMs: 60_000,
    body: new Uint8Array(),
  };
  const made = shared.run("a", (answered) => call(services, { ...order, answered }));
  startMany("a", 10);
  await calm();
  expect(runningOf("a")).toBe(CONNECTIONS - 1);
  headers.resolve(new Response(slow, { status: 500 }));
  await calm();
  expect(runningOf("a")).toBe(CONNECTIONS);
  body?.enqueue(new TextEncoder().encode("busy"));
  body?.close();
  expect(await made).toMatchObject({ exchange: { kind: "response", status: 500 }, excerpt: "busy" });
});

test("attempts on all connections and any number of sends to queues never ask for a seventh connection", async () => {
  const invocation = new Invocation({ now: () => 0 });
  const sent: unknown[] = [];
  const slowly = () => new Promise((resolve) => setTimeout(resolve, 2));
  const slowQueue = {
    send: async (body: unknown) => {
      await slowly();
      sent.push(body);
    },
    sendBatch: async (messages: Iterable<MessageSendRequest>) => {
      await slowly();
      sent.push(...[...messages].map(({ body }) => body));
      if (sent.length === 2) throw new Error("the queue is away");
    },
  } as unknown as Queue<never>;
  const strict = strictQueue(slowQueue, () => invocation);
  const { deliveries, drains } = sendingInTurn({ deliveries: strict, drains: strict } as unknown as Services);
  const slowFetch = (async () => {
    await slowly();
    return new Response();
  }) as unknown as typeof fetch;
  const fetch = strictFetch(slowFetch, () => invocation);
  const shared = connections();
  await Promise.allSettled([
    ...Array.from({ length: 20 }, () => shared.run("a", () => fetch("https://example.com/"))),
    ...[1, 2, 3].map((i) => deliveries.sendBatch([{ body: i as never }])),
    ...[4, 5, 6].map((i) => drains.send(i as never)),
  ]);
  expect(sent).toEqual([1, 2, 3, 4, 5, 6]);
  expect(invocation.used.connections).toBe(6);
  expect(invocation.breaches).toEqual([]);
});
