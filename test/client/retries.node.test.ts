/** The client's retries and their times. Its clock stands still: waits are noted instead. */
import { describe, expect, test } from "vitest";
import { breakwaterClient } from "../../client/src/breakwater.ts";
import type { RetryOptions } from "../../client/src/retries.ts";

type Answer = Response | Error;

const accepted = () => Response.json({ id: "evt_1", deliveries: [] }, { status: 202 });
const refused = (status: number, retryAfter?: string) =>
  Response.json(
    { type: "/problems/x", title: "x", status, detail: "Later" },
    { status, headers: retryAfter === undefined ? {} : { "retry-after": retryAfter } },
  );

/** A client whose requests get these answers, one after the other. */
function clientWith(answers: readonly Answer[], retries: RetryOptions = {}) {
  const left = [...answers];
  const sent: Readonly<{ method: string; key: string | null; body: string }>[] = [];
  const waits: number[] = [];
  const client = breakwaterClient({
    url: "https://breakwater.example",
    key: "bw_1",
    fetch: async (request) => {
      sent.push({
        method: request.method,
        key: request.headers.get("idempotency-key"),
        body: await request.text(),
      });
      const answer = left.shift() ?? new Error("No answer is left");
      if (answer instanceof Error) throw answer;
      return answer;
    },
    retries: { sleep: async (ms) => void waits.push(ms), random: () => 0.5, ...retries },
  });
  return { client, sent, waits };
}

const body = { type: "order.created", data: { id: 1 } };

describe("a post of an event", () => {
  test("is sent again with the same body and the same idempotency key", async () => {
    const { client, sent } = clientWith([refused(503, "5"), accepted()]);
    const { data } = await client.POST("/v1/events", { body });
    expect(data?.id).toBe("evt_1");
    expect(sent).toHaveLength(2);
    expect(sent[1]).toEqual(sent[0]);
    expect(sent[0]?.key).toMatch(/^[0-9a-f-]{36}$/);
    expect(JSON.parse(sent[1]?.body ?? "")).toEqual(body);
  });

  test("has a new key each time, or the one that it is given", async () => {
    const { client, sent } = clientWith([accepted(), accepted(), accepted()]);
    await client.POST("/v1/events", { body });
    await client.POST("/v1/events/batch", { body: { events: [body] } });
    await client.POST("/v1/events", { body, params: { header: { "idempotency-key": "order 1" } } });
    expect(new Set(sent.map(({ key }) => key)).size).toBe(3);
    expect(sent[2]?.key).toBe("order 1");
  });

  test("is sent again after a connection that failed", async () => {
    const { client, sent } = clientWith([new TypeError("fetch failed"), accepted()]);
    expect((await client.POST("/v1/events", { body })).data?.id).toBe("evt_1");
    expect(sent).toHaveLength(2);
  });
});

describe("the wait before the next attempt", () => {
  test.each([
    ["is Retry-After with up to 100 % jitter", "5", [7_500]],
    ["doubles from half a second where the server names none", undefined, [750, 1_500, 3_000]],
    ["is the same where Retry-After is not readable", "soon", [750, 1_500, 3_000]],
    ["is the same where Retry-After is a time that has passed", "Thu, 01 Jan 1970 00:00:00 GMT", [750]],
    ["is never longer than the limit", "50", [60_000]],
  ])("%s", async (_, retryAfter, waits) => {
    const refusals = waits.map(() => refused(429, retryAfter));
    const { client, waits: waited } = clientWith([...refusals, accepted()]);
    await client.POST("/v1/events", { body });
    expect(waited).toEqual(waits);
  });

  test("that is longer than the limit ends the attempts with the refusal", async () => {
    const { client, sent, waits } = clientWith([refused(429, "61")]);
    const { error } = await client.POST("/v1/events", { body });
    expect(error?.status).toBe(429);
    expect([sent.length, waits]).toEqual([1, []]);
  });

  test("ends with the signal of the request", async () => {
    const { client, sent } = clientWith([refused(503, "5"), accepted()], {
      sleep: async (_, signal) => signal.throwIfAborted(),
    });
    const abort = new AbortController();
    const post = client.POST("/v1/events", { body, signal: abort.signal });
    abort.abort(new Error("The caller has left"));
    await expect(post).rejects.toThrow("The caller has left");
    expect(sent.length).toBeLessThan(2);
  });
});

test("attempts are bounded: the last refusal, or the last error, is the result", async () => {
  const refusals = clientWith([refused(503), refused(503), refused(503), refused(503, "9")]);
  expect((await refusals.client.GET("/v1/health")).response.headers.get("retry-after")).toBe("9");
  expect(refusals.sent).toHaveLength(4);
  const errors = clientWith([new Error("first"), new Error("second")], { attempts: 2 });
  await expect(errors.client.GET("/v1/health")).rejects.toThrow("second");
});

test("a request that may not take effect twice is sent once, and other refusals are final", async () => {
  const path = { id: "dst_1" };
  const unkeyed = clientWith([refused(503, "1")]);
  const { error } = await unkeyed.client.POST("/v1/destinations/{id}/pause", { params: { path } });
  expect([error?.status, unkeyed.sent.length]).toEqual([503, 1]);
  const change = clientWith([new Error("connection lost")]);
  const changing = change.client.PATCH("/v1/destinations/{id}", { params: { path }, body: { uid: "a" } });
  await expect(changing).rejects.toThrow("connection lost");
  const final = clientWith([refused(500)]);
  expect((await final.client.GET("/v1/health")).response.status).toBe(500);
});

test("an answer without a problem document becomes a problem with its status and the beginning of its body", async () => {
  const page = () => new Response("<html>Bad gateway</html>", { status: 502, statusText: "Bad Gateway" });
  await expect(clientWith([page()]).client.list("/v1/events").next()).rejects.toMatchObject({
    message: "Bad Gateway: <html>Bad gateway</html>",
    problem: { type: "about:blank", status: 502 },
  });
});
