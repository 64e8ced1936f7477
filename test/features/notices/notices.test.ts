/** Notice channels of the API, and the trouble that they are notified of. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { accessUnder } from "../../../src/core/portal-access.ts";
import type { Principal } from "../../../src/core/principal.ts";
import { rotateMasterKey } from "../../../src/features/destinations/master-key.ts";
import { noticing } from "../../../src/features/notices/job.ts";
import { publishLeftovers, publishStatusChanges } from "../../../src/features/notifications/publish.ts";
import { vaultOf } from "../../../src/secrets/vault.ts";
import type { Services } from "../../../src/services.ts";
import { findUnpublished, pauseStatements } from "../../../src/store/status-changes.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";
import { receivers } from "../../support/receivers.ts";
import { keysOf } from "../../support/vault.ts";

const SLACK = "https://hooks.slack.example/services/T0/B0/very-secret";
const ADDRESSES = { from: "breakwater@example.com", to: "ops@example.com" };
const MINUTE = 60_000;

type Mail = Readonly<{ to: string; subject: string; text: string }>;

let receiver: ReturnType<typeof receivers>;
let mails: Mail[];
let now: number;
let circuit: "closed" | "open";
beforeEach(async () => {
  await emptyDatabase();
  receiver = receivers();
  mails = [];
  now = NOW;
  circuit = "closed";
});

/** An API for a caller, in a deployment that sends mails or does not. */
function api(principal?: Principal, sendsMails = true, more: Partial<Services> = {}) {
  const gate = { claimTest: async () => null, view: async () => ({ circuit }) };
  const mailer = {
    send: async (mail: Mail) => {
      // Another test is about mails to the operator.
      if (mail.to !== ADDRESSES.to) mails.push(mail);
      return { messageId: "1" };
    },
  };
  const config = testConfig({
    ownHosts: ["hooks.breakwater.example"],
    ...(sendsMails && { alertEmail: ADDRESSES }),
  });
  return testApi({
    ...(principal && { authenticate: async () => principal }),
    services: {
      fetch: receiver.fetch,
      gates: { idFromName: (name: string) => name, get: () => gate },
      now: () => now,
      upkeep: { send: async () => {} },
      config,
      ...(sendsMails && { mailer }),
      ...more,
    } as never,
  });
}

async function created(fields: object = {}, from = api()) {
  const { json } = await from.call("POST", "/v1/destinations", {
    url: "https://example.com/hook",
    tenant: "acme",
    ...fields,
  });
  return json.id as string;
}

const at = (id: string, more = "") => `/v1/destinations/${id}/notices${more}`;

test("a channel is set, shown without its secrets, changed and removed", async () => {
  const { call } = api();
  const id = await created();
  expect(await call("GET", at(id))).toMatchObject({ status: 404 });
  const set = await call("PUT", at(id), { kind: "slack", url: SLACK });
  const shown = {
    kind: "slack",
    target: "https://hooks.slack.example/…",
    on: ["disabled", "circuit_open", "dead", "recovered"],
    open_after_minutes: 10,
    language: "en",
    last_notice_at: null,
    fault: null,
  };
  expect(set).toMatchObject({ status: 200, json: shown });
  expect(await call("GET", at(id))).toMatchObject({ status: 200, json: shown });
  // Without a target, its current one stays.
  const change = { kind: "slack", on: ["disabled"], language: "de" };
  expect(await call("PUT", at(id), change)).toMatchObject({ status: 200, json: { ...shown, ...change } });
  await call("POST", at(id, "/test"));
  expect(receiver.calls.map(({ url }) => url)).toEqual([SLACK]);
  const stored = JSON.stringify(await env.DB.prepare("SELECT * FROM destinations, audit_entries").all());
  expect(stored).not.toContain("very-secret");
  expect(await call("DELETE", at(id))).toMatchObject({ status: 204 });
  expect(await call("DELETE", at(id))).toMatchObject({ status: 204 });
  expect(await call("GET", at(id))).toMatchObject({ status: 404 });
});

describe("refused, with the field, is", () => {
  test.each<[string, object, string]>([
    ["a channel without a URL", { kind: "slack" }, "url"],
    ["an address for a chat", { kind: "slack", url: SLACK, email: "a@b.example" }, "email"],
    ["a URL for mails", { kind: "mail", email: "a@b.example", url: SLACK }, "url"],
    ["an address that is none", { kind: "mail", email: "nobody" }, "email"],
    ["a kind that there is not", { kind: "pigeon", url: SLACK }, "kind"],
    ["no event at all", { kind: "slack", url: SLACK, on: [] }, "on"],
    ["an event twice", { kind: "slack", url: SLACK, on: ["dead", "dead"] }, "on"],
    ["too long a time", { kind: "slack", url: SLACK, open_after_minutes: 1441 }, "open_after_minutes"],
    ["a private address", { kind: "webhook", url: "https://10.0.0.1/" }, "url"],
    ["a metadata service", { kind: "webhook", url: "http://169.254.169.254/latest" }, "url"],
    ["the deployment itself", { kind: "webhook", url: "https://hooks.breakwater.example/v1/events" }, "url"],
    ["a binding", { kind: "webhook", url: "queue:ORDERS" }, "url"],
  ])("%s", async (_, body, field) => {
    const from = api();
    const id = await created({}, from);
    const { status, json } = await from.call("PUT", at(id), body);
    expect({ status, fields: json.errors?.map((one: { field: string }) => one.field) }).toEqual({
      status: 422,
      fields: [field],
    });
    expect(await from.call("GET", at(id))).toMatchObject({ status: 404 });
  });

  test("mail, if the deployment sends none", async () => {
    const { call } = api(undefined, false);
    const id = await created();
    const { status, json } = await call("PUT", at(id), { kind: "mail", email: "a@b.example" });
    expect(status).toBe(422);
    expect(json.detail).toBe(
      "kind is mail, and this deployment sends no mails; expected slack, discord, teams, webhook",
    );
  });
});

describe("a visitor of the portal", () => {
  const visitor = (rules: object, scopes: Principal["scopes"] = ["read", "admin"]): Principal => ({
    scopes,
    tenant: "acme",
    visit: accessUnder(rules),
  });
  const body = { kind: "webhook", url: "https://notified.example/in" };

  test("sets, tests and removes a channel of its own endpoint", async () => {
    const id = await created();
    const { call } = api(visitor({}));
    expect(await call("PUT", at(id), body)).toMatchObject({ status: 200 });
    expect(await call("POST", at(id, "/test"))).toMatchObject({ json: { delivered: true, fault: null } });
    expect(await call("DELETE", at(id))).toMatchObject({ status: 204 });
  });

  test("without the right to change endpoints only reads, and without the right to test sends nothing", async () => {
    const id = await created();
    await api().call("PUT", at(id), body);
    for (const scopes of [["read"], ["read", "admin"]] as const) {
      const { call } = api(visitor({ may_edit_endpoints: false, may_test: false }, scopes));
      expect(await call("GET", at(id))).toMatchObject({ status: 200 });
      for (const [method, more] of [
        ["PUT", ""],
        ["DELETE", ""],
        ["POST", "/test"],
      ] as const)
        expect(await call(method, at(id, more), method === "PUT" ? body : undefined)).toMatchObject({
          status: 403,
        });
    }
    expect(receiver.calls).toEqual([]);
  });

  test("finds no channel of another tenant", async () => {
    const id = await created({ tenant: "rival" });
    await api().call("PUT", at(id), body);
    const { call } = api(visitor({}));
    for (const [method, more] of [
      ["GET", ""],
      ["PUT", ""],
      ["DELETE", ""],
      ["POST", "/test"],
    ] as const)
      expect(await call(method, at(id, more), method === "PUT" ? body : undefined)).toMatchObject({
        status: 404,
      });
    expect(await api().call("GET", at(id))).toMatchObject({ json: { target: "https://notified.example/…" } });
  });
});

/** Pauses the destination as its failures do, and publishes that. */
async function disable(from: ReturnType<typeof api>, id: string) {
  await pauseStatements(env.DB, [id], "gone", now).run();
  await publishStatusChanges(from.services, await findUnpublished(from.services, { ids: [id], at: now }));
  await noticing.step(from.services, id);
}

test("a channel is notified when its endpoint is disabled, and later when it takes events again", async () => {
  const from = api();
  const id = await created({ description: "<!channel> *shop*" });
  await from.call("PUT", at(id), { kind: "slack", url: SLACK, language: "de" });
  await disable(from, id);
  const [{ body = "" } = {}] = receiver.calls;
  expect(JSON.parse(body).text).toBe("Endpunkt abgeschaltet: &lt;!channel&gt; *shop*");
  expect(body).toContain("410 Gone");
  expect(body).toContain(`https://hooks.breakwater.example/portal/endpoints/${id}|Endpunkt öffnen`);
  expect(await from.call("GET", at(id))).toMatchObject({
    json: { last_notice_at: new Date(NOW).toISOString() },
  });
  await from.call("POST", `/v1/destinations/${id}/resume`);
  now += 59 * MINUTE;
  await noticing.step(from.services, id);
  expect(receiver.calls).toHaveLength(1);
  now += MINUTE;
  await noticing.step(from.services, id);
  expect(JSON.parse(receiver.calls[1]?.body ?? "").text).toMatch(/^Endpunkt nimmt wieder Ereignisse an/);
});

test("a webhook gets a signed event", async () => {
  const from = api();
  const id = await created();
  await from.call("PUT", at(id), { kind: "webhook", url: "https://notified.example/in" });
  await disable(from, id);
  const [call] = receiver.calls;
  expect(call?.headers.get("webhook-signature")).toMatch(/^v1,/);
  expect(JSON.parse(call?.body ?? "")).toMatchObject({
    type: "endpoint.notice",
    data: { endpoint_id: id, endpoint: "example.com", events: ["disabled"], disabled_reason: "gone" },
  });
});

test("none of the endpoint's own headers and credentials goes to its channel", async () => {
  const from = api();
  const auth = { kind: "basic", username: "shop", password: "very-secret" };
  const id = await created({ headers: { "x-api-key": "very-secret" }, auth });
  await from.call("PUT", at(id), { kind: "webhook", url: "https://notified.example/in" });
  await from.call("POST", at(id, "/test"));
  expect(JSON.stringify([...(receiver.calls[0]?.headers ?? [])])).not.toMatch(
    /very-secret|authorization|x-api-key/i,
  );
});

describe("a mail", () => {
  test("goes to the channel's address, and not to the tenant's contact as well", async () => {
    const from = api();
    const id = await created();
    await from.call("PATCH", "/v1/tenants/acme", { contact_email: "contact@acme.example" });
    await from.call("PUT", at(id), { kind: "mail", email: "ops@acme.example", on: ["disabled"] });
    await disable(from, id);
    expect(mails).toMatchObject([
      { to: "ops@acme.example", subject: "[Breakwater] Endpoint disabled: example.com" },
    ]);
  });

  test("goes to the contact if the channel does not want it", async () => {
    const from = api();
    const id = await created();
    await from.call("PATCH", "/v1/tenants/acme", { contact_email: "contact@acme.example" });
    await from.call("PUT", at(id), { kind: "mail", email: "ops@acme.example", on: ["dead"] });
    await disable(from, id);
    expect(mails).toMatchObject([{ to: "contact@acme.example" }]);
  });

  test("about a test goes once an hour", async () => {
    const from = api();
    const id = await created();
    await from.call("PUT", at(id), { kind: "mail", email: "ops@acme.example" });
    expect(await from.call("POST", at(id, "/test"))).toMatchObject({ json: { delivered: true } });
    expect(await from.call("POST", at(id, "/test"))).toMatchObject({ json: { delivered: false } });
    expect(mails).toHaveLength(1);
  });
});

test("the cron notifies a pause whose Worker died before it did", async () => {
  const from = api();
  const id = await created();
  await from.call("PUT", at(id), { kind: "slack", url: SLACK });
  await pauseStatements(env.DB, [id], "failing", now).run();
  now += MINUTE;
  const enqueued: unknown[] = [];
  const upkeep = { send: async (message: unknown) => void enqueued.push(message) } as never;
  await noticing.run({ ...from.services, upkeep });
  expect(enqueued).toEqual([{ notice: id, at: now }]);
  await noticing.step(from.services, id);
  expect(receiver.calls).toHaveLength(1);
  await publishLeftovers(from.services);
});

test("two steps at once send one notice", async () => {
  const from = api();
  const id = await created();
  await from.call("PUT", at(id), { kind: "slack", url: SLACK });
  await pauseStatements(env.DB, [id], "gone", now).run();
  await Promise.all([1, 2, 3].map(() => noticing.step(from.services, id)));
  expect(receiver.calls).toHaveLength(1);
});

test("a manual pause, and trouble of a destination without a channel, are not notified", async () => {
  const from = api();
  const id = await created();
  await from.call("PUT", at(id), { kind: "slack", url: SLACK });
  await from.call("POST", `/v1/destinations/${id}/pause`);
  expect((await env.DB.prepare("SELECT * FROM notices").all()).results).toEqual([]);
  await from.call("POST", `/v1/destinations/${id}/resume`);
  await pauseStatements(env.DB, [id], "gone", now).run();
  await from.call("DELETE", at(id));
  await noticing.step(from.services, id);
  expect(receiver.calls).toEqual([]);
  expect((await env.DB.prepare("SELECT * FROM notices").all()).results).toEqual([]);
});

test("a channel that was broken in the database has no effect on others", async () => {
  const from = api();
  const id = await created();
  await from.call("PUT", at(id), { kind: "slack", url: SLACK });
  for (const broken of ["no json", "[1]", '{"kind":"pigeon"}', '{"on":7}', "7"]) {
    await env.DB.prepare("UPDATE destinations SET notice_channel = ?1, status = 'active'").bind(broken).run();
    await disable(from, id);
    expect(await from.call("GET", at(id))).toMatchObject({ status: 404 });
    now += 1;
  }
  expect(receiver.calls).toEqual([]);
});

test("rotating the master key seals the target again", async () => {
  const from = api();
  const id = await created();
  await from.call("PUT", at(id), { kind: "slack", url: SLACK });
  const old = "test:dGhlIG1hc3RlciBrZXkgb2YgdGhlIHRlc3RzIG9ubHk=";
  const vault = vaultOf(keysOf(`next:${btoa("n".repeat(32))},${old}`));
  const services = { ...from.services, vault };
  await rotateMasterKey({ services, principal: { scopes: ["read", "admin"] } }, "");
  const row = await env.DB.prepare("SELECT notice_target FROM destinations").first();
  expect(row?.notice_target).toMatch(/^notice\.next\./);
  const rotated = api(undefined, true, { vault });
  expect(await rotated.call("POST", at(id, "/test"))).toMatchObject({ json: { delivered: true } });
});
