/** Polling endpoints by the official SDK of Svix, against a whole deployment. */
import { Svix } from "svix";
import { afterAll, beforeAll, expect, test } from "vitest";
import { seededRandom } from "../../../src/core/seeded-random.ts";
import { startBreakwater } from "../../support/breakwater-runtime.ts";
import type { Runtime } from "../../support/runtime.ts";

const KEY = "test-admin-key-0123456789";
/** `npm run test:poller`: 100,000. */
const EVENTS = Number(process.env.POLLER_EVENTS ?? 3_000);

let runtime: Runtime;
let app = "";
beforeAll(async () => {
  runtime = await startBreakwater({ vars: { ADMIN_KEY: KEY } });
  app = (await sdk().application.create({ name: "Shop", uid: "shop" })).id;
  await post("/v1/destinations", { kind: "poll", tenant: app, uid: "inbox", event_types: ["order.*"] });
});
afterAll(() => runtime?.stop());

/** A process of the customer. */
const sdk = () => new Svix(KEY, { serverUrl: runtime.url });

async function post(path: string, body: object, method = "POST"): Promise<void> {
  const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  const response = await fetch(runtime.url + path, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
}

async function postNumbers(from: number, to: number): Promise<void> {
  for (let n = from; n < to; n += 500)
    await post("/v1/events/batch", {
      events: Array.from({ length: Math.min(500, to - n) }, (_, i) => ({
        type: "order.paid",
        tenant: app,
        data: { n: n + i },
      })),
    });
}

const numbers = (data: readonly { payload: { n: number } }[]) => data.map(({ payload }) => payload.n);
const all = Array.from({ length: EVENTS }, (_, n) => n);

test("the SDK's loop reads every event through kills, and repeats only the uncommitted page", async () => {
  await postNumbers(0, EVENTS / 2);
  const random = seededRandom(5);
  const seen = new Set<number>();
  let kills = 0;
  let isPosted = false;
  for (;;) {
    // A process that begins knows no iterator, and is killed at some page.
    const { poller } = sdk().message;
    let iterator: string | undefined;
    let isOver = false;
    for (let pages = Math.floor(random() * 5); pages >= 0 && !isOver; pages--) {
      const page = await poller.consumerPoll(app, "inbox", "billing", {
        limit: 250,
        ...(iterator && { iterator }),
      });
      const own = numbers(page.data);
      if (iterator !== undefined) expect(own.filter((n) => seen.has(n))).toEqual([]);
      for (const n of own) seen.add(n);
      iterator = page.iterator;
      isOver = page.done && own.length === 0;
    }
    if (isOver && isPosted) break;
    if (isOver) await postNumbers(EVENTS / 2, EVENTS);
    isPosted ||= isOver;
    kills += 1;
  }
  expect(kills).toBeGreaterThan(2);
  // In the order of acceptance, and none is missing.
  expect([...seen]).toEqual(all);
});

test("with its own iterator the SDK reads on from there, and a consumer begins where it is set", async () => {
  const { poller } = sdk().message;
  const seen: number[] = [];
  let iterator: string | undefined;
  for (let isOver = false; !isOver; ) {
    const page = await poller.poll(app, "inbox", { limit: 250, ...(iterator && { iterator }) });
    seen.push(...numbers(page.data));
    ({ iterator, done: isOver } = page);
  }
  expect(seen).toEqual(all);
  const none = await poller.poll(app, "inbox", { eventType: "order.other" });
  expect(none.data).toEqual([]);
  const [first] = (await poller.consumerPoll(app, "inbox", "late", { limit: 1 })).data;
  expect(first).toMatchObject({ eventType: "order.paid", payload: { n: 0 } });
  const { iterator: at } = await poller.consumerSeek(app, "inbox", "late", { after: new Date(0) });
  const again = await poller.consumerPoll(app, "inbox", "late", { limit: 1, iterator: at });
  expect(numbers(again.data)).toEqual([0]);
});

test("an event that cannot be converted never reaches the SDK's loop as an empty one, and delays no other", async () => {
  await post("/v1/event-types/bill.paid", { schema: { type: "object" } }, "PUT");
  await post("/v1/destinations", { kind: "poll", tenant: app, uid: "bills", event_types: ["bill.paid"] });
  const version = { schema: { type: "object", required: ["n"] }, conversion: '{"n": {{ data.n }} }' };
  await post("/v1/event-types/bill.paid/versions/2", version, "PUT");
  const events = ["no number", 2, 3].map((n) => ({ type: "bill.paid", tenant: app, data: { n } }));
  await post("/v1/events/batch", { events });
  const { poller } = sdk().message;
  const seen: number[] = [];
  let iterator: string | undefined;
  for (let isOver = false; !isOver; ) {
    const page = await poller.consumerPoll(app, "bills", "loop", { limit: 2, ...(iterator && { iterator }) });
    seen.push(...numbers(page.data));
    ({ iterator, done: isOver } = page);
  }
  expect(seen).toEqual([2, 3]);
});
