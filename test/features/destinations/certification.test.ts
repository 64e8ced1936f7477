/** Certification over the API and on the pages: the requests of the suite, its bounds, and its stored result. */
import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { beforeEach, expect, it } from "vitest";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { testDashboard } from "../../support/dashboard.ts";
import { visitor } from "../../support/portal.ts";
import { type Call, receivers } from "../../support/receivers.ts";

const URL_OF_HOOK = "https://example.com/hook";
let receiver: ReturnType<typeof receivers>;
let claim: (isSuite?: boolean) => Promise<number | null>;

beforeEach(async () => {
  await emptyDatabase();
  receiver = receivers();
  claim = async () => null;
});

function api(services: object = {}) {
  const gate = {
    claimTest: (isSuite?: boolean) => claim(isSuite),
    scheduleDrain: async () => {},
    resume: async () => {},
  };
  const gates = { idFromName: (name: string) => name, get: () => gate };
  return testApi({ services: { fetch: receiver.fetch, gates, ...services } as never });
}

type Created = { id: string; secret: string };

async function created(fields: object = {}): Promise<Created> {
  const made = await api().call("POST", "/v1/destinations", { url: URL_OF_HOOK, ...fields });
  return made.json as Created;
}

/** A receiver that verifies, by the clock of the test. */
const verifying =
  (secret: string) =>
  ({ body, headers }: Call) => {
    const [id = "", at = "", signatures = ""] = ["id", "timestamp", "signature"].map(
      (name) => headers.get(`webhook-${name}`) ?? "",
    );
    const isRecent = Math.abs(NOW - Number(at) * 1000) < 300_000;
    const signature = new Webhook(secret).sign(id, new Date(Number(at) * 1000), body);
    return new Response(null, { status: isRecent && signatures.split(" ").includes(signature) ? 204 : 401 });
  };

const pathOf = (id: string) => `/v1/destinations/${id}/certification`;
const run = (id: string, body: object = { consent: true }) => api().call("POST", pathOf(id), body);

it("a receiver that verifies is certified by eight marked requests, one at a time, and the result is stored", async () => {
  const { id, secret } = await created({ headers: { "x-api-key": "k-1" } });
  receiver.script(URL_OF_HOOK, verifying(secret));
  const { status, json } = await run(id);
  expect([status, json.certified, json.at]).toEqual([200, true, new Date(NOW).toISOString()]);
  expect(json.checks.map(({ result }: { result: string }) => result)).toEqual(Array(9).fill("passed"));
  expect([receiver.calls.length, receiver.mostOpen()]).toEqual([8, 1]);
  const ids = receiver.calls.map(({ headers }) => headers.get("webhook-id"));
  expect(ids.every((one) => /^test_[a-z0-9]{13}$/.test(one ?? ""))).toBe(true);
  expect([ids[0] === ids[1], new Set(ids).size]).toEqual([true, 7]);
  expect(receiver.calls.every(({ headers }) => headers.get("x-api-key") === "k-1")).toBe(true);
  expect(await api().call("GET", pathOf(id))).toMatchObject({ status: 200, json });
  const { json: trail } = await api().call("GET", `/v1/audit?subject=${id}`);
  expect(trail.data[0]).toMatchObject({ action: "destination.certified" });
});

it("a receiver that accepts everything fails every check of a forgery, with reason and fix", async () => {
  const { id } = await created();
  const { json } = await run(id);
  const failed = json.checks.filter(({ result }: { result: string }) => result === "failed");
  expect(json.certified).toBe(false);
  expect(failed.map(({ check }: { check: string }) => check)).toEqual([
    "unsigned",
    "wrong_signature",
    "altered_body",
    "old_timestamp",
  ]);
  for (const { fault, reason, fix } of failed) {
    expect([fault, reason]).toEqual(["accepted", "It was accepted with 204; expected 400 or 401."]);
    expect(fix).not.toBe("");
  }
});

it("a receiver that is down, or requests a hold, gets no further request", async () => {
  const { id } = await created();
  receiver.script(URL_OF_HOOK, new Error("Network connection lost."));
  expect((await run(id)).json.checks[0]).toMatchObject({ fault: "no_answer", error: "connection_lost" });
  expect(receiver.calls).toHaveLength(1);
  receiver.script(URL_OF_HOOK, 204, 429);
  const { json } = await run(id);
  expect(receiver.calls).toHaveLength(3);
  expect(json.checks.at(-1)).toEqual({ check: "old_timestamp", result: "not_run" });
});

it("nothing is sent without consent, to a foreign endpoint, to an inbox, or before its gate allows it", async () => {
  const { id } = await created({ tenant: "acme" });
  for (const body of [{}, { consent: false }, { consent: "true" }])
    expect((await run(id, body)).status).toBe(422);
  const stranger = testApi({
    authenticate: async () => ({ scopes: ["read", "admin"], tenant: "other" }),
    services: { fetch: receiver.fetch },
  });
  expect((await stranger.call("POST", pathOf(id), { consent: true })).status).toBe(404);
  expect((await stranger.call("GET", pathOf(id))).status).toBe(404);
  const { id: inbox } = await created({ url: undefined, kind: "poll" });
  expect((await run(inbox)).status).toBe(409);
  const asked: unknown[] = [];
  claim = async (isSuite) => {
    asked.push(isSuite);
    return NOW + 40_000;
  };
  const refused = await run(id);
  expect([refused.status, refused.headers.get("retry-after"), asked]).toEqual([429, "40", [true]]);
  expect(receiver.calls).toEqual([]);
  expect((await api().call("GET", pathOf(id))).status).toBe(404);
});

it("a private address is not called", async () => {
  const { id } = await created();
  await env.DB.prepare("UPDATE destinations SET url = 'https://10.0.0.1/hook'").run();
  expect((await run(id)).status).toBe(409);
  expect(receiver.calls).toEqual([]);
});

it("a URL set while the suite runs is not certified; other changes keep the result", async () => {
  const { id, secret } = await created();
  receiver.script(URL_OF_HOOK, verifying(secret));
  await run(id);
  await api().call("PATCH", `/v1/destinations/${id}`, { description: "Invoices" });
  expect((await api().call("GET", pathOf(id))).status).toBe(200);
  await api().call("PATCH", `/v1/destinations/${id}`, { url: "https://example.com/other" });
  expect((await api().call("GET", pathOf(id))).status).toBe(404);
  receiver.script("https://example.com/other", async () => {
    await api().call("PATCH", `/v1/destinations/${id}`, { url: URL_OF_HOOK });
    return new Response(null, { status: 204 });
  });
  expect((await run(id)).status).toBe(409);
  expect((await api().call("GET", pathOf(id))).status).toBe(404);
});

it("visitors of the portal run it by consent and see the fix in their language; operators see it at the dashboard", async () => {
  const { id } = await created({ tenant: "acme" });
  const options = { services: { fetch: receiver.fetch }, gate: { claimTest: async () => null } };
  const browser = await visitor("acme", { language: "de" }, options);
  const path = `/portal/endpoints/${id}/certification`;
  expect((await browser.get(path)).html).toContain("Noch nicht geprüft");
  expect((await browser.post(path)).status).toBe(422);
  expect(receiver.calls).toEqual([]);
  expect((await browser.post(path, { consent: "true" })).status).toBe(303);
  const { html } = await browser.get(path);
  expect(html).toContain("Ihr Endpunkt hat nicht bestanden");
  expect(html).toContain("Lehnen Sie eine Anfrage ohne Signatur mit 401 ab");
  expect((await browser.get(`/portal/endpoints/${id}`)).html).toContain("Ihr Endpunkt hat nicht bestanden");
  const dashboard = testDashboard(options);
  await dashboard.signIn();
  const shown = await dashboard.get(`/dashboard/destinations/${id}/certification`);
  expect(shown.html).toContain("The receiver has not passed");
  const stranger = await visitor("other", {}, options);
  expect((await stranger.get(path)).status).toBe(404);
  expect((await stranger.post(path, { consent: "true" })).status).toBe(404);
  const reader = await visitor("acme", { access: { may_test: false } }, options);
  expect((await reader.post(path, { consent: "true" })).status).toBe(403);
  expect((await reader.get(path)).html).not.toContain('<form class="stack" method="post"');
});
