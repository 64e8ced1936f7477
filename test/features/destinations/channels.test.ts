/** Channels: a destination with channels takes only the events that were posted with one of them. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { utf8 } from "../../support/utf8.ts";

const url = "https://example.com/hook";
const { call } = testApi();

beforeEach(emptyDatabase);

async function created(settings: object = {}, tenant = "acme"): Promise<string> {
  const { json, text } = await call("POST", "/v1/destinations", { url, tenant, ...settings });
  expect(json?.id, text).toBeDefined();
  return json.id;
}

type Accepted = Readonly<{ id: string; hint?: string; deliveries: readonly { destination_id: string }[] }>;

const event = { type: "order.paid", data: { total: 1 }, tenant: "acme" };
const planned = ({ deliveries }: Accepted) => deliveries.map((one) => one.destination_id);

async function post(channels?: readonly string[]): Promise<Accepted> {
  const { status, json, text } = await call("POST", "/v1/events", { ...event, channels });
  expect(status, text).toBe(202);
  return json;
}

describe("an event", () => {
  it("goes to the destinations that have one of its channels, and to those without any", async () => {
    const all = await created();
    const eu = await created({ channels: ["eu"] });
    const both = await created({ channels: ["eu", "us"] });
    const refusing = await created({ channels: ["eu"], event_types: ["invoice.*"] });
    const to = async (channels?: string[]) => planned(await post(channels)).toSorted();
    expect(await to(["eu"])).toEqual([all, eu, both].toSorted());
    expect(await to(["us", "asia"])).toEqual([all, both].toSorted());
    expect(await to(["EU"])).toEqual([all]);
    expect(await to()).toEqual([all]);
    expect(await to(["eu"])).not.toContain(refusing);
  });

  it("without a channel that a destination has is stored with a hint", async () => {
    await created({ channels: ["eu"] });
    expect((await post()).hint).toContain("check their event_types, channels and filter");
  });

  it("is routed by channels in a batch, in lines, and as content of its own type", async () => {
    const eu = await created({ channels: ["eu"], body: "data" });
    const events = [{ ...event, channels: ["eu"] }, event, { ...event, channels: ["us", "eu"] }];
    const lines = events.map((one) => JSON.stringify(one)).join("\n");
    const ndjson = { "content-type": "application/x-ndjson" };
    for (const [body, headers] of [[{ events }], [lines, ndjson]] as const) {
      const { json } = await call("POST", "/v1/events/batch", body, headers);
      expect(json.events.map(planned)).toEqual([[eu], [], [eu]]);
    }
    const text = { "content-type": "text/plain" };
    const content = (query: string) => call("POST", `/v1/events?type=a&tenant=acme${query}`, utf8("x"), text);
    expect(planned((await content("&channels=us&channels=eu")).json)).toEqual([eu]);
    expect(planned((await content("")).json)).toEqual([]);
  });

  it("that is content and in no channel of a destination is not refused because of its body", async () => {
    await created({ channels: ["eu"] });
    const text = { "content-type": "text/plain" };
    const posted = (channel: string) =>
      call("POST", `/v1/events?type=a&tenant=acme&channels=${channel}`, utf8("x"), text);
    expect((await posted("us")).status).toBe(202);
    expect((await posted("eu")).json.errors).toMatchObject([{ field: "body" }]);
  });

  it("is shown with its own channels, whatever others in its bundle have", async () => {
    const events = [
      { ...event, channels: ["b", "a", "b"] },
      { ...event, tenant: "rival", channels: ["secret", "a"] },
      event,
    ];
    const { json } = await call("POST", "/v1/events/batch", { events });
    const shown = await Promise.all(
      json.events.map(async ({ id }: Accepted) => (await call("GET", `/v1/events/${id}`)).json.channels),
    );
    expect(shown).toEqual([["a", "b"], ["a", "secret"], undefined]);
  });

  it("with an idempotency key is the same only with the same channels", async () => {
    const key = { "idempotency-key": "k" };
    const first = await call("POST", "/v1/events", { ...event, channels: ["a"] }, key);
    const again = await call("POST", "/v1/events", { ...event, channels: ["a"] }, key);
    expect(again.json).toEqual(first.json);
    expect((await call("POST", "/v1/events", { ...event, channels: ["b"] }, key)).status).toBe(409);
    expect((await call("POST", "/v1/events", event, key)).status).toBe(409);
  });
});

describe("a destination's channels", () => {
  it("are shown, changed, and removed with null, from the next event on", async () => {
    const id = await created({ channels: ["eu"] });
    const patch = async (channels: unknown) =>
      (await call("PATCH", `/v1/destinations/${id}`, { channels })).json.channels;
    expect(planned(await post(["us"]))).toEqual([]);
    expect(await patch(["us"])).toEqual(["us"]);
    expect(planned(await post(["us"]))).toEqual([id]);
    expect(await patch(null)).toBe(null);
    expect(planned(await post())).toEqual([id]);
  });

  it.each<[unknown, string, string]>([
    [[], "channels", "a list of 1 to 10 channels"],
    ["eu", "channels", "a list of 1 to 10 channels"],
    [Array(11).fill("eu"), "channels", "a list of 1 to 10 channels"],
    [["eu", "a b"], "channels[1]", "1 to 128 letters, digits and _ . -"],
    [["x".repeat(129)], "channels[0]", "1 to 128 letters"],
    [[7], "channels[0]", "1 to 128 letters"],
  ])("are refused when they are %j, with the field at fault", async (channels, field, expected) => {
    const { status, json } = await call("POST", "/v1/destinations", { url, channels });
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      { field, fault: expect.any(String), expected: expect.stringContaining(expected) },
    ]);
  });

  it.each([
    "not json",
    "[]",
    '"eu"',
    '["eu",7]',
    '["e u"]',
    "{}",
    "0",
  ])("edited in the database into %s take everything, and are shown as null", async (stored) => {
    const id = await created({ channels: ["eu"] });
    expect(planned(await post())).toEqual([]);
    await env.DB.prepare("UPDATE destinations SET channels = ?1").bind(stored).run();
    expect(planned(await post())).toEqual([id]);
    expect((await call("GET", `/v1/destinations/${id}`)).json.channels).toBe(null);
    const preview = await call("POST", `/v1/destinations/${id}/preview`);
    expect(preview.json).toMatchObject({ taken: 2, not_taken: 0 });
  });

  it("edited in the database apply from the next event on", async () => {
    const id = await created({ channels: ["eu"] });
    expect(planned(await post(["us"]))).toEqual([]);
    await env.DB.prepare(`UPDATE destinations SET channels = '["us"]'`).run();
    expect(planned(await post(["us"]))).toEqual([id]);
  });
});

describe("a preview", () => {
  it("names the channel as the reason, and tries other channels", async () => {
    const id = await created({ channels: ["eu"], event_types: ["order.*"], filter: { total: 1 } });
    await post(["us"]);
    await post(["eu", "us"]);
    await post();
    const reasons = async (body?: object) =>
      (await call("POST", `/v1/destinations/${id}/preview`, body)).json.events.map(
        ({ reason }: { reason: string | null }) => reason,
      );
    expect(await reasons()).toEqual(["channel", null, "channel"]);
    expect(await reasons({ channels: ["us"] })).toEqual(["channel", null, null]);
    expect(await reasons({ channels: null })).toEqual([null, null, null]);
    expect(await reasons({ channels: ["us"], filter: { total: 2 } })).toEqual([
      "channel",
      "filter",
      "filter",
    ]);
    expect(await reasons({ channels: ["us"], event_types: ["a"] })).toEqual(["type", "type", "type"]);
    expect((await call("GET", `/v1/destinations/${id}`)).json.channels).toEqual(["eu"]);
    const refused = await call("POST", `/v1/destinations/${id}/preview`, { channels: [] });
    expect([refused.status, refused.json.errors[0].field]).toEqual([422, "channels"]);
  });
});
