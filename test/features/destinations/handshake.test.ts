import { beforeEach, describe, expect, it } from "vitest";
import { countRows, emptyDatabase, testApi } from "../../support/api.ts";

beforeEach(emptyDatabase);

const URL_ = "https://example.com/hook";

/** An API whose receiver answers OPTIONS so, and the requests that reached it. */
function withReceiver(answer: () => Response) {
  const asked: { url: string; init: RequestInit | undefined }[] = [];
  const fetch = async (url: unknown, init?: RequestInit) => {
    asked.push({ url: String(url), init });
    return answer();
  };
  return { asked, ...testApi({ services: { fetch: fetch as typeof globalThis.fetch } }) };
}

const allowing = (headers: Record<string, string>) => () => new Response(null, { headers });

describe("the handshake with a new destination", () => {
  it("is not made unless it is requested", async () => {
    const { call, asked } = withReceiver(allowing({}));
    expect((await call("POST", "/v1/destinations", { url: URL_ })).status).toBe(201);
    expect(asked).toEqual([]);
  });

  it("names this host, and makes the allowed rate per minute the destination's rate", async () => {
    const { call, asked } = withReceiver(
      allowing({ "webhook-allowed-origin": "*", "webhook-allowed-rate": "120" }),
    );
    const { status, json } = await call("POST", "/v1/destinations", { url: URL_, handshake: true });
    expect([status, json.rate_per_second]).toEqual([201, 2]);
    expect(asked[0]).toMatchObject({ url: URL_, init: { method: "OPTIONS", redirect: "manual" } });
    expect(new Headers(asked[0]?.init?.headers).get("webhook-request-origin")).toBeTruthy();
  });

  it.each([
    ["any rate is allowed", "*", undefined, 100],
    ["a lower rate was given by the caller", "600", 3, 3],
    ["the allowed rate is nonsense", "-1", undefined, 100],
  ])("keeps the rate when %s", async (_, allowed, own, rate) => {
    const { call } = withReceiver(
      allowing({ "webhook-allowed-origin": "*", "webhook-allowed-rate": allowed }),
    );
    const body = { url: URL_, handshake: true, ...(own && { rate_per_second: own }) };
    expect((await call("POST", "/v1/destinations", body)).json.rate_per_second).toBe(rate);
  });

  it.each([
    ["allows nobody", allowing({}), "without WebHook-Allowed-Origin"],
    ["allows someone else", allowing({ "webhook-allowed-origin": "other.example" }), "other.example"],
    ["does not know OPTIONS", () => new Response(null, { status: 405 }), "405"],
    [
      "Cloudflare's edge cannot find",
      () =>
        new Response("error code: 1016", {
          status: 530,
          headers: { server: "cloudflare", "content-type": "text/plain; charset=UTF-8" },
        }),
      "could not be requested: dns",
    ],
    [
      "cannot be reached",
      () => {
        throw new Error("Network connection lost.");
      },
      "Network connection lost",
    ],
  ])("refuses a receiver that %s, and stores nothing", async (_, answer, fault) => {
    const { call } = withReceiver(answer);
    const { status, json } = await call("POST", "/v1/destinations", { url: URL_, handshake: true });
    expect(status).toBe(422);
    expect(json.errors[0]).toMatchObject({ field: "handshake", fault: expect.stringContaining(fault) });
    expect(await countRows("destinations")).toBe(0);
  });
});
