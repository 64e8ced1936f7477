/** One attempt, whole if it was stored, in the API and on the pages of operators and customers. */
import { beforeEach, describe, expect, test } from "vitest";
import { deliveryId } from "../../../src/ids.ts";
import { isoTime } from "../../../src/time.ts";
import { KEY, testApi } from "../../support/api.ts";
import { type TestBucket, testBucket } from "../../support/bucket.ts";
import { testDashboard } from "../../support/dashboard.ts";
import { testPortal } from "../../support/portal.ts";
import { execute, newDestination, newWorld, rowOf, START, urlOf, type World } from "../../support/world.ts";

let world: World;
let r2: TestBucket;
beforeEach(async () => {
  world = await newWorld();
  r2 = await testBucket();
  Object.assign(world.services, {
    bodies: r2.bucket,
    config: { ...world.services.config, adminKey: KEY },
  });
});

/** Posts one event and makes one attempt, which is answered so. */
async function attempted(body: BodyInit, status = 500) {
  const destination = await newDestination({ headers: { "x-api-key": "a-long-value" } });
  world.receiver.script(urlOf(destination), () => new Response(body, { status, headers: { "x-a": "<1>" } }));
  const [message] = await world.post(1, { data: { number: 1 } });
  if (!message) throw new Error("The event is for the destination");
  await world.consume([message]);
  await world.settledThroughPauses();
  const id = deliveryId(message.eventId, destination);
  return { id, message, destination, path: `/v1/deliveries/${id}/attempts/${isoTime(START)}` };
}

const api = () => testApi({ services: world.services });
const get = async (path: string) => (await api().call("GET", path)).json;

const LONG = `<script>alert(1)</script>${"x".repeat(9_000)}`;

describe("an attempt", () => {
  test("is shown as it was, with headers and the whole answer", async () => {
    const { id, path, destination } = await attempted(LONG);
    expect(await get(path)).toMatchObject({
      delivery_id: id,
      at: isoTime(START),
      status: 500,
      archive: "kept",
      request: {
        url: urlOf(destination),
        headers: { "x-api-key": "***", "webhook-attempt": "1" },
        encoding: "utf-8",
      },
      response: { headers: { "x-a": "<1>" }, encoding: "utf-8", body: LONG, is_whole: true },
    });
    const { request } = await get(path);
    expect(JSON.parse(request.body).data).toEqual({ number: 1 });
    expect((await get(`/v1/deliveries/${id}`)).log).toMatchObject([{ archived: true }]);
  });

  test("keeps the request that was sent when the destination is changed", async () => {
    const { path, destination } = await attempted(LONG);
    await execute("UPDATE destinations SET body = 'data', url = 'https://elsewhere.example/'");
    const { request } = await get(path);
    expect(request.url).toBe(urlOf(destination));
    expect(JSON.parse(request.body)).toMatchObject({ type: "order.paid" });
  });

  test.each([
    [
      "could not be stored",
      "missing",
      async () => r2.bucket.delete((await r2.stored()).map(({ name }) => name)),
    ],
    ["cannot be read", "unavailable", () => r2.before(() => Promise.reject(new Error("internal error")))],
    [
      "is of another's event, because the database is younger than the bucket",
      "missing",
      async () => {
        const [object] = await r2.stored();
        expect(object?.text).toContain('"acme"');
        const text = object?.text.replace('"acme"', '"rival"') ?? "";
        await r2.bucket.put(object?.name ?? "", text);
      },
    ],
    ["has been edited", "missing", async () => r2.bucket.put((await r2.stored())[0]?.name ?? "", "{}")],
  ])("whose exchange %s is shown from the log", async (_, archive, spoil) => {
    const { path } = await attempted(LONG);
    await spoil();
    expect(await get(path)).toMatchObject({
      archive,
      request: { headers: { "x-api-key": "***" } },
      response: { headers: null, body: LONG.slice(0, 4_096), is_whole: false },
    });
  });

  test("for which R2 never answers is shown from the log after a while", async () => {
    const { path } = await attempted(LONG);
    r2.before(() => new Promise<void>(() => {}));
    const asked = get(path);
    await world.clock.asleep(10_000);
    world.clock.pass(10_000);
    expect(await asked).toMatchObject({ archive: "unavailable", response: { is_whole: false } });
  });

  test("without a bucket is shown from the log", async () => {
    Object.assign(world.services, { bodies: undefined });
    const { path } = await attempted(LONG);
    expect(await get(path)).toMatchObject({ archive: "none", response: { body: LONG.slice(0, 4_096) } });
  });

  test("without its content is shown with its headers, for a destination with a template too", async () => {
    Object.assign(world.services, { bodies: undefined });
    const { path } = await attempted(LONG);
    await execute("UPDATE destinations SET template = 'slack'");
    await execute("UPDATE bundles SET header = json_set(header, '$.erased', json('[0,1]'), '$.version', 2)");
    const { request } = await get(path);
    expect(request).toMatchObject({ headers: { "content-type": "application/json" }, body: null });
  });

  test("is unavailable once R2 is no longer bound", async () => {
    const { path } = await attempted(LONG);
    Object.assign(world.services, { bodies: undefined });
    expect(await get(path)).toMatchObject({ archive: "unavailable" });
  });

  test("that succeeded is found if all are archived, although no log has it", async () => {
    Object.assign(world.services.config, { bodiesOf: "all" });
    const { path } = await attempted("fine", 200);
    expect(await get(path)).toMatchObject({ archive: "kept", response: { body: "fine", is_whole: true } });
  });

  test("is not found by another time, another delivery or another tenant", async () => {
    const { id, path } = await attempted(LONG);
    const asks = [
      `/v1/deliveries/${id}/attempts/${isoTime(START + 1)}`,
      `/v1/deliveries/${id}/attempts/1`,
      `/v1/deliveries/${id}/attempts/..%2f..`,
      `/v1/deliveries/${id.slice(0, -1)}${id.endsWith("x") ? "y" : "x"}/attempts/${isoTime(START)}`,
    ];
    for (const ask of asks) expect((await api().call("GET", ask)).status, ask).toBe(404);
    const key = (await api().call("POST", "/v1/keys", { scopes: ["read"], tenant: "rival" })).json.key;
    const foreign = await api().call("GET", path, undefined, { authorization: `Bearer ${key}` });
    expect(foreign.status).toBe(404);
    expect(foreign.text).not.toContain("xxx");
    expect(r2.called("get")).toBe(0);
  });
});

describe("on pages", () => {
  async function dashboard() {
    const browser = testDashboard({ services: world.services });
    await browser.post("/dashboard/sign-in", { key: KEY });
    return browser;
  }

  async function portal(rules: object = {}, tenant = "acme") {
    const link = (await api().call("POST", "/v1/portal-links", { tenant, ...rules })).json;
    const visitor = testPortal({ services: world.services });
    await visitor.post("/portal/enter", { token: new URL(link.url).searchParams.get("token") ?? "" });
    return visitor;
  }

  const ofPortal = (id: string) => `/portal/deliveries/${id}/attempts/${encodeURIComponent(isoTime(START))}`;
  const ofDashboard = (id: string) => ofPortal(id).replace("/portal", "/dashboard");

  test("the whole answer is linked, shown as text, and can be saved as a file that does not run", async () => {
    const { id } = await attempted(LONG);
    for (const [browser, path, parent] of [
      [await portal(), ofPortal(id), `/portal/deliveries/${id}`],
      [await dashboard(), ofDashboard(id), `/dashboard/events/evt_${id.slice(4, 17)}`],
    ] as const) {
      expect((await browser.get(parent)).html).toContain(`href="${path}"`);
      const { status, html, headers } = await browser.get(path);
      expect(status).toBe(200);
      expect(html).toContain("&lt;script&gt;alert(1)");
      expect(html).not.toContain("<script>alert");
      expect(html).toContain("x".repeat(9_000));
      expect(html).toContain("x-a: &lt;1&gt;");
      expect(headers.get("content-security-policy")).toContain("default-src 'none'");
      const file = await browser.get(`${path}/answer`);
      expect(Object.fromEntries(file.headers)).toMatchObject({
        "content-type": "application/octet-stream",
        "content-disposition": 'attachment; filename="answer.bin"',
        "x-content-type-options": "nosniff",
      });
      expect(file.html).toBe(LONG);
    }
  });

  test("binary content is labelled as such, with its size", async () => {
    const { id } = await attempted(new Uint8Array(5_000));
    expect((await (await portal()).get(ofPortal(id))).html).toContain("Binary contents: 5,000 bytes.");
    expect((await (await dashboard()).get(ofDashboard(id))).html).toContain("Binary contents: 5,000 bytes.");
  });

  test("content that could not be archived or read is reported", async () => {
    const { id } = await attempted(LONG);
    r2.before(() => Promise.reject(new Error("away")));
    expect((await (await portal()).get(ofPortal(id))).html).toContain("cannot be read at the moment");
    r2.before(() => {});
    await r2.bucket.delete((await r2.stored()).map(({ name }) => name));
    expect((await (await portal()).get(ofPortal(id))).html).toContain("is not stored, or not yet");
    expect((await (await dashboard()).get(ofDashboard(id))).html).toContain("is not stored, or not yet");
  });

  test("a customer who may not see contents gets no link, page or file with them", async () => {
    const { id } = await attempted(LONG);
    const visitor = await portal({ access: { may_see_payloads: false } });
    expect((await visitor.get(`/portal/deliveries/${id}`)).html).not.toContain("/attempts/");
    const { html } = await visitor.get(ofPortal(id));
    expect(html).toContain("may not see");
    expect(html).not.toContain("xxx");
    expect((await visitor.get(`${ofPortal(id)}/answer`)).status).toBe(404);
  });

  test("a customer does not find another customer's attempts", async () => {
    const { id } = await attempted(LONG);
    const visitor = await portal({}, "rival");
    for (const path of [ofPortal(id), `${ofPortal(id)}/answer`])
      expect((await visitor.get(path)).status).toBe(404);
  });

  test("a delivery whose answers are short has no links", async () => {
    const { message, id } = await attempted("short");
    expect((await rowOf(message))?.log).toHaveLength(1);
    expect((await (await portal()).get(`/portal/deliveries/${id}`)).html).not.toContain("/attempts/");
  });
});
