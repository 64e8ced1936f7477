/** The command `breakwater`, as a child process against a deployment on this machine. */
import { createHmac } from "node:crypto";
import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { describe, expect, test } from "vitest";
import { scopes } from "../../src/core/scopes.ts";
import { deliveryText } from "../../src/pages/ui/status-text.ts";
import { API_KEY, commandLine, page, problem } from "./command-line.ts";

const { breakwater, answers, url, home } = await commandLine();
const profiles = join(home, "config/breakwater/profiles.json");

const DELIVERY = "dlv_0123456789abc_0123456789abcdefghjk";
const EVENT = "evt_0123456789abc";
const DAY = 86_400_000;
const inFuture = new Date(Date.now() + 10.5 * DAY + 600_000).toISOString();
const waiting = {
  id: DELIVERY,
  event_id: EVENT,
  destination_id: "dst_0123456789abcdefghjk",
  state: "waiting",
  reason: "circuit_open",
  waiting_until: inFuture,
  attempts: 2,
  give_up_at: inFuture,
  log: [{ at: "2026-11-21T09:00:00.000Z", status: 503, latency_ms: 12, response: "down \u001b[31m" }],
} as const;

describe("login", () => {
  test("saves the key from standard input in a file that only the user can read, and later commands use it", async () => {
    const sent = answers({ "GET /v1/events": page() });
    const login = await breakwater(["login", `${url}/dashboard`, "--profile", "staging"], {
      input: `${API_KEY}\n`,
      env: {},
    });
    expect([login.code, login.out]).toEqual([0, ""]);
    expect(statSync(profiles).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(profiles, "utf8"))).toEqual({ staging: { url, key: API_KEY } });
    expect(login.error).not.toContain(API_KEY);
    const list = await breakwater(["events", "list", "--profile", "staging"], { env: {} });
    expect([list.code, list.error]).toEqual([0, "Nothing found.\n"]);
    expect(sent.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${API_KEY}`,
      `Bearer ${API_KEY}`,
    ]);
    expect((await breakwater(["profiles"], { env: {} })).out).toContain("staging");
    expect((await breakwater(["logout", "--profile", "staging"], { env: {} })).code).toBe(0);
    expect((await breakwater(["profiles"], { env: {} })).out).toBe("");
  });

  test("takes a key that may only post, and refuses one that is not valid", async () => {
    answers({ "GET /v1/events": problem(403, "The key lacks the scope read") });
    expect((await breakwater(["login", url])).code).toBe(0);
    answers({ "GET /v1/events": problem(401, "The key is not valid") });
    const refused = await breakwater(["login", url, "--profile", "other"]);
    expect([refused.code, refused.error]).toEqual([3, "breakwater: The key is not valid\n"]);
    expect(readFileSync(profiles, "utf8")).not.toContain("other");
  });

  test.each([
    ["no key", [url], "", 2],
    ["an address without TLS", ["http://breakwater.example"], API_KEY, 2],
    ["no address", ["not an address"], API_KEY, 2],
  ])("with %s saves nothing", async (_, args, input, code) => {
    expect((await breakwater(["login", ...args], { input, env: {} })).code).toBe(code);
  });

  test("makes a file private that others could read, with a remark", async () => {
    writeFileSync(profiles, JSON.stringify({ default: { url, key: API_KEY } }));
    chmodSync(profiles, 0o644);
    const { error } = await breakwater(["profiles"], { env: {} });
    expect(error).toContain("its mode is now 600");
    expect(statSync(profiles).mode & 0o777).toBe(0o600);
  });
});

describe("deliveries", () => {
  test("why prints the dashboard's sentence, until when, the attempts and what to do", async () => {
    answers({ [`GET /v1/deliveries/${DELIVERY}`]: { body: waiting } });
    const { code, out } = await breakwater(["deliveries", "why", DELIVERY]);
    const { text } = deliveryText(waiting, 0, Date.now());
    expect(text).toContain("circuit is open, for another 10 d 12 h");
    expect(out.split("\n")[0]).toBe(`${text} (${inFuture}).`);
    expect(out).toMatch(/2026-11-21T09:00:00.000Z +503 +12/);
    expect(out).toContain(`What to do: ${url}/docs#reason-circuit_open`);
    expect(code).toBe(0);
  });

  test("text of a receiver does not reach the terminal as control characters", async () => {
    answers({ [`GET /v1/deliveries/${DELIVERY}`]: { body: waiting } });
    expect((await breakwater(["deliveries", "why", DELIVERY])).out).not.toContain("\u001b");
  });

  test("why says how long a delivered one took, as JSON for programs", async () => {
    const delivered = {
      ...waiting,
      state: "delivered",
      attempts: 1,
      delivered_at: "2026-11-21T09:00:42Z",
      log: [],
    };
    answers({
      [`GET /v1/deliveries/${DELIVERY}`]: { body: delivered },
      [`GET /v1/events/${EVENT}`]: { body: { id: EVENT, timestamp: "2026-11-21T09:00:00Z" } },
    });
    const { out } = await breakwater(["deliveries", "why", DELIVERY, "--json"]);
    expect(JSON.parse(out)).toMatchObject({
      explanation: "Delivered at the first attempt, 42 s after it was accepted",
      delivery: { state: "delivered" },
    });
  });

  test("why also counts the attempts before a manual retry", async () => {
    const [attempt] = waiting.log;
    const delivered = { ...waiting, state: "delivered", attempts: 1, log: [attempt, attempt] };
    answers({
      [`GET /v1/deliveries/${DELIVERY}`]: { body: delivered },
      [`GET /v1/events/${EVENT}`]: { body: { id: EVENT, timestamp: "2026-11-21T09:00:00Z" } },
    });
    const { out } = await breakwater(["deliveries", "why", DELIVERY]);
    expect(out).toContain("Sent again, and delivered at attempt 2");
    expect(out).toMatch(/^attempts +2$/m);
  });

  test("why takes an event's id, and explains each of its deliveries", async () => {
    const other = { ...waiting, id: `${DELIVERY}2`, destination_id: "dst_2", reason: "paused", log: [] };
    const event = { id: EVENT, timestamp: "2026-11-21T09:00:00Z", deliveries: [waiting, other] };
    answers({ [`GET /v1/events/${EVENT}`]: { body: event } });
    const { out, code } = await breakwater(["deliveries", "why", EVENT]);
    for (const one of [waiting, other]) {
      expect(out).toContain(deliveryText(one, 0, Date.now()).text);
      expect(out).toContain(`What to do: ${url}/docs#reason-${one.reason}`);
    }
    expect(out.match(/^id .*/gm)).toEqual([waiting, other].map(({ id }) => `id              ${id}`));
    expect(code).toBe(0);
    const lines = (await breakwater(["deliveries", "why", EVENT, "--json"])).out.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line).delivery.id)).toEqual([waiting.id, other.id]);
  });

  test("why says of an event without deliveries that no destination took it", async () => {
    answers({
      [`GET /v1/events/${EVENT}`]: { body: { id: EVENT, timestamp: "2026-11-21T09:00:00Z", deliveries: [] } },
    });
    const { out, error } = await breakwater(["deliveries", "why", EVENT]);
    expect([out, error]).toEqual(["", "No destination took the event when it was accepted.\n"]);
  });

  test("list sends the filters and prints a table, or a line of JSON for each", async () => {
    const sent = answers({ "GET /v1/deliveries": page(waiting, waiting) });
    const filters = ["--state", "waiting", "--destination", waiting.destination_id, "--limit", "1"];
    const table = await breakwater(["deliveries", "list", ...filters, "--order", "event"]);
    expect(sent[0]?.path).toBe(
      `/v1/deliveries?destination_id=${waiting.destination_id}&state=waiting&order=event&limit=1`,
    );
    expect(table.out.split("\n").map((line) => line.split(/ +/).slice(0, 3))).toEqual([
      ["ID", "STATE", "REASON"],
      [DELIVERY, "waiting", "circuit_open"],
      [""],
    ]);
    expect(table.error).toContain("There are more");
    const lines = (await breakwater(["deliveries", "list", "--json"])).out.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line).id)).toEqual([DELIVERY, DELIVERY]);
  });

  test("retry and cancel do what can be done, and exit with the first refusal", async () => {
    const [one, other] = [DELIVERY, DELIVERY.replace("k", "m")];
    const refusal = { id: other, problem: problem(409, "It was delivered").body };
    const retried = answers({
      "POST /v1/deliveries/retry": { body: { data: [{ id: one, delivery: waiting }, refusal] } },
    });
    const retry = await breakwater(["deliveries", "retry", one, other]);
    expect([retry.code, retry.error]).toEqual([5, `${other}: It was delivered\n`]);
    expect(retry.out).toContain(one);
    expect(retried[0]?.body).toEqual({ delivery_ids: [one, other] });
    answers({ [`POST /v1/deliveries/${one}/cancel`]: { body: { ...waiting, state: "cancelled" } } });
    const cancel = await breakwater(["deliveries", "cancel", other, one]);
    expect(cancel.code).toBe(4);
    expect(cancel.out).toContain("cancelled");
  });

  test("tail prints the deliveries of the stream, and skips everything else", async () => {
    const event = (id: string) => `event: delivery\ndata: ${JSON.stringify({ ...waiting, id })}\n\n`;
    const body = `retry: 1000\nid: none\n\n${event("dlv_1")}event: gap\ndata: {}\n\n${event("dlv_2")}${event("dlv_3")}`;
    answers({ "GET /v1/deliveries/tail": { body, headers: { "content-type": "text/event-stream" } } });
    const { out, error } = await breakwater(["tail", "--limit", "2"]);
    expect(
      out
        .trim()
        .split("\n")
        .map((line) => line.split(" ")[0]),
    ).toEqual(["dlv_1", "dlv_2"]);
    expect(error).toContain("were omitted");
  });
});

describe("events", () => {
  const accepted = {
    body: { id: EVENT, deliveries: [{ id: DELIVERY }], hint: "No destination takes it" },
    status: 202,
  };

  test("post sends the data of an option or of standard input, with an idempotency key", async () => {
    const sent = answers({ "POST /v1/events": accepted });
    const { out, error } = await breakwater([
      "events",
      "post",
      "a.b",
      "--data",
      '{"n":1}',
      "--tenant",
      "acme",
      "--tag",
      "x",
      "--tag",
      "y",
    ]);
    expect(out).toContain(EVENT);
    expect(error).toBe("No destination takes it\n");
    await breakwater(["events", "post", "a.b", "--ttl", "60", "--idempotency-key", "order 1"], {
      input: "[1, 2]",
    });
    expect(sent.map(({ body }) => body)).toEqual([
      { type: "a.b", data: { n: 1 }, tenant: "acme", tags: ["x", "y"] },
      { type: "a.b", data: [1, 2], ttl: 60 },
    ]);
    expect(sent[0]?.headers["idempotency-key"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(sent[1]?.headers["idempotency-key"]).toBe("order 1");
  });

  test("post sends numbers as they are written, whatever their digits", async () => {
    const accepted = { status: 202, body: { id: EVENT, deliveries: [], events: [] } };
    const sent = answers({ "POST /v1/events": accepted, "POST /v1/events/batch": accepted });
    const data = '{"id":1187465291838226432,"price":1.10}';
    await breakwater(["events", "post", "a", "--data", data]);
    await breakwater(["events", "post", "a", "--tag", "x"], { input: data });
    const line = `{"type":"a","data":${data}}`;
    await breakwater(["events", "post", "--lines", "-"], { input: `${line}\n${line}` });
    expect(sent.map(({ sentText }) => sentText)).toEqual([
      line,
      `{"type":"a","tags":["x"],"data":${data}}`,
      `{"events":[${line},${line}]}`,
    ]);
  });

  test("post --lines posts a file in batches, and names the line where it stopped", async () => {
    const sent = answers({ "POST /v1/events/batch": { status: 202, body: { events: [] } } });
    const lines = Array.from({ length: 501 }, (_, n) => `{"type":"a","data":${n}}`);
    const { out } = await breakwater(["events", "post", "--lines", "-"], {
      input: `\n${lines.join("\n")}\n`,
    });
    expect(out).toBe("501 events posted\n");
    expect(sent.map(({ body }) => (body as { events: unknown[] }).events.length)).toEqual([500, 1]);
    let batches = 0;
    answers({
      "POST /v1/events/batch": () => (batches++ === 0 ? { body: { events: [] } } : problem(422, "No")),
    });
    const refused = await breakwater(["events", "post", "--lines", "-"], { input: lines.join("\n") });
    expect(refused.code).toBe(6);
    expect(refused.error).toContain(
      "500 events were posted; line 501 and what follows were not (it is events[0])",
    );
  });

  test("get prints the fields of an event, and its deliveries as a table", async () => {
    answers({ [`GET /v1/events/${EVENT}`]: { body: { id: EVENT, data: { n: 1 }, deliveries: [waiting] } } });
    const { out } = await breakwater(["events", "get", EVENT]);
    expect(out.split("\n").map((line) => line.split(/ +/).slice(0, 3).join(" "))).toEqual([
      `id ${EVENT}`,
      'data {"n":1}',
      "",
      "ID STATE REASON",
      `${DELIVERY} waiting circuit_open`,
      "",
    ]);
    const { deliveries } = JSON.parse((await breakwater(["events", "get", EVENT, "--json"])).out);
    expect(deliveries).toHaveLength(1);
  });

  test("get prints numbers as they were posted, whatever their digits", async () => {
    const data = '{"id":1187465291838226432,"price":1.10,"text":"1187465291838226432, \\"1.10"}';
    answers({ [`GET /v1/events/${EVENT}`]: { body: `{"id":"${EVENT}","data":${data},"deliveries":[]}` } });
    expect((await breakwater(["events", "get", EVENT])).out).toContain(`data  ${data}\n`);
    const { out } = await breakwater(["events", "get", EVENT, "--json"]);
    expect(
      out
        .split("\n")
        .slice(2, 6)
        .join("")
        .replaceAll(/ {2,}|(?<=:) /g, ""),
    ).toBe(`"data":${data.slice(0, -1)}`);
    answers({ [`GET /v1/events/${EVENT}`]: { body: `{"data":-0.0,"deliveries":[]}` } });
    expect((await breakwater(["events", "get", EVENT])).out).toBe("data  -0.0\n");
    answers({ [`GET /v1/events/${EVENT}`]: problem(404, "There is no event") });
    expect((await breakwater(["events", "get", EVENT])).error).toBe("breakwater: There is no event\n");
  });

  test.each([
    ["--tenant", "acme"],
    ["--tag", "import"],
    ["--idempotency-key", "order 1"],
    ["order.paid"],
  ])("post --lines refuses %s, which is for one event, and posts nothing", async (...args) => {
    const sent = answers({ "POST /v1/events/batch": { status: 202, body: { events: [] } } });
    const { code, error } = await breakwater(["events", "post", "--lines", "-", ...args], {
      input: '{"type":"a","data":1}',
    });
    expect([code, error]).toEqual([2, expect.stringContaining(`${args[0]} is for one event`)]);
    expect(sent).toEqual([]);
  });

  test("data that is not JSON is refused before anything is sent", async () => {
    const sent = answers({});
    expect((await breakwater(["events", "post", "a", "--data", "{"])).code).toBe(2);
    const lines = await breakwater(["events", "post", "--lines", "-"], { input: '{"type":"a"}\nx' });
    expect([lines.code, lines.error]).toEqual([2, expect.stringContaining("Line 2 is not JSON")]);
    expect(sent).toEqual([]);
  });
});

describe("destinations", () => {
  test("create takes options and a file with the rest", async () => {
    const sent = answers({
      "POST /v1/destinations": { status: 201, body: { id: "dst_1", secret: "whsec_new" } },
    });
    const args = ["--url", "https://a.example/", "--event-type", "a.*", "--rate", "5", "--file", "-"];
    const { out } = await breakwater(["destinations", "create", ...args], {
      input: '{"headers":{"x":"y"},"url":"no"}',
    });
    expect(out).toContain("whsec_new");
    expect(sent[0]?.body).toEqual({
      headers: { x: "y" },
      url: "https://a.example/",
      event_types: ["a.*"],
      rate_per_second: 5,
    });
  });

  test("rotate names the version that it replaces, so that it rotates once", async () => {
    const sent = answers({
      "GET /v1/destinations/dst_1": { body: { secret_version: 3 } },
      "POST /v1/destinations/dst_1/rotate-secret": { body: { secret: "whsec_2" } },
    });
    const { out } = await breakwater(["destinations", "rotate", "dst_1", "--overlap", "0", "--json"]);
    expect(JSON.parse(out)).toEqual({ secret: "whsec_2" });
    expect(sent[1]?.body).toEqual({ overlap_s: 0, secret_version: 3 });
  });

  test("delete deletes one, and needs its id", async () => {
    const sent = answers({ "DELETE /v1/destinations/dst_1": { status: 204 } });
    expect((await breakwater(["destinations", "delete"])).code).toBe(2);
    const { code, error } = await breakwater(["destinations", "delete", "dst_1"]);
    expect([code, error, sent.length]).toEqual([0, "Destination dst_1 is deleted\n", 1]);
  });

  test.each([
    [204, 0],
    [500, 8],
  ])("test exits by what the receiver answers: %d with %d", async (status, code) => {
    answers({ "POST /v1/destinations/dst_1/test": { body: { status, latency_ms: 1 } } });
    expect((await breakwater(["destinations", "test", "dst_1"])).code).toBe(code);
  });

  test("an endpoint is certified with consent only, and the reasons are printed", async () => {
    const path = "/v1/destinations/dst_1/certification";
    const failed = { check: "unsigned", result: "failed", status: 204, reason: "Accepted.", fix: "Refuse." };
    const body = { certified: false, at: "2026-11-26T09:00:00.000Z", checks: [failed] };
    const passed = { ...body, certified: true, checks: [{ check: "unsigned", result: "passed" }] };
    const sent = answers({ [`GET ${path}`]: { body: passed }, [`POST ${path}`]: { body } });
    expect((await breakwater(["certify", "dst_1"])).code).toBe(0);
    const run = await breakwater(["certify", "dst_1", "--consent"]);
    expect([run.code, run.out.includes("unsigned: Accepted. Refuse.")]).toEqual([8, true]);
    expect(run.error).toContain("has not passed the test of 2026-11-26");
    expect(sent.map(({ method, body }) => [method, body])).toEqual([
      ["GET", undefined],
      ["POST", { consent: true }],
    ]);
  });
});

test("a replay is started, waited for and stopped", async () => {
  const replay = { id: "rpl_1", destination_id: "dst_1", state: "running", ended_at: null };
  const sent = answers({
    "POST /v1/replays": {
      status: 201,
      body: { ...replay, ended_at: "2026-11-21T09:00:00Z", state: "completed" },
    },
    "POST /v1/replays/rpl_1/cancel": { body: { ...replay, state: "cancelled" } },
  });
  const since = "2026-11-20T00:00:00Z";
  const { out } = await breakwater([
    "replays",
    "create",
    "dst_1",
    "--since",
    since,
    "--include",
    "missing",
    "--wait",
    "--json",
  ]);
  expect(JSON.parse(out)).toMatchObject({ state: "completed" });
  expect(sent[0]?.body).toMatchObject({ destination_id: "dst_1", since, include: "missing" });
  expect((await breakwater(["replays", "stop", "rpl_1"])).out).toContain("cancelled");
});

test("keys are created, listed and revoked, and links to the portal made", async () => {
  const sent = answers({
    "POST /v1/keys": { status: 201, body: { id: "key_1", key: "bw_new" } },
    "GET /v1/keys": page({ id: "key_1", name: "ci", scopes: ["read", "admin"] }),
    "DELETE /v1/keys/key_1": { status: 204 },
    "POST /v1/portal-links": { status: 201, body: { url: "https://portal.example/x" } },
  });
  expect((await breakwater(["keys", "create", "ci", "--scope", "read", "--scope", "admin"])).out).toContain(
    "bw_new",
  );
  expect(sent[0]?.body).toEqual({ name: "ci", scopes: ["read", "admin"] });
  expect((await breakwater(["keys", "list"])).out).toMatch(/key_1 +ci +– +read admin/);
  expect((await breakwater(["keys", "revoke", "key_1"])).code).toBe(0);
  expect((await breakwater(["portal-link", "acme", "--read-only"])).out).toBe("https://portal.example/x\n");
  expect(sent.at(-1)?.body).toEqual({ tenant: "acme", read_only: true });
});

test.each(scopes)("a key with the scope %s can be created", async (scope) => {
  const sent = answers({ "POST /v1/keys": { status: 201, body: { id: "key_1" } } });
  expect((await breakwater(["keys", "create", "--scope", scope])).code).toBe(0);
  expect(sent.map(({ body }) => body)).toEqual([{ scopes: [scope] }]);
});

describe("event-types import", () => {
  const IMPORT = "POST /v1/event-types/import";
  const args = ["event-types", "import", "-f", "-"];
  const step = (action: string, ...errors: string[]) => ({ name: "order.paid", action, version: 2, errors });

  test("shows what would be done to each type, and imports with --yes", async () => {
    const sent = answers({ [IMPORT]: { body: { types: [step("publish")] } } });
    const plan = await breakwater(args, { input: "webhooks: {}" });
    expect([plan.code, plan.error]).toEqual([8, "--yes imports this.\n"]);
    expect(plan.out).toMatch(/order\.paid +publish +2/);
    const done = await breakwater([...args, "--yes", "--archive-others"], { input: "webhooks: {}" });
    expect([done.code, done.error]).toEqual([0, ""]);
    expect(sent.map(({ body }) => body)).toEqual([
      { document: "webhooks: {}", dry_run: true, archive_others: false },
      { document: "webhooks: {}", dry_run: false, archive_others: true },
    ]);
  });

  test("says why nothing would be imported, and when there is nothing to do", async () => {
    answers({ [IMPORT]: { body: { types: [step("refuse", "the conversion is missing")] } } });
    const refused = await breakwater(args, { input: "" });
    expect([refused.code, refused.error]).toEqual([8, "Nothing would be imported.\n"]);
    expect(refused.out).toContain("order.paid: the conversion is missing");
    answers({ [IMPORT]: { body: { types: [step("keep")] } } });
    expect((await breakwater(args, { input: "" })).code).toBe(0);
    expect((await breakwater(["event-types", "import"])).code).toBe(2);
  });
});

describe("apply", () => {
  const yaml = "tenants:\n  acme:\n    settings: { retention_days: 30 }\nevent_types:\n  order.paid:\n";
  const tenant = (retention_days: number | null) => ({
    body: { tenant: "acme", retention_days, portal: null },
  });
  const schemas = { NewDestination: { properties: { url: {} }, additionalProperties: false } };
  const api = { "GET /openapi.json": { body: { components: { schemas } } } };
  const stored = {
    ...api,
    "GET /v1/event-types/order.paid": { body: { name: "order.paid", archived: false } },
  };

  test("shows the plan of a YAML file, and changes nothing without --yes", async () => {
    const sent = answers({ ...stored, "GET /v1/tenants/acme": tenant(null) });
    const { code, out, error } = await breakwater(["apply", "-f", "-"], { input: yaml });
    expect(out).toBe("~ tenant acme\n    retention_days: null → 30\n");
    expect([code, error]).toEqual([8, "0 to create, 1 to change, 0 to delete. --yes applies this.\n"]);
    expect(sent.filter(({ method }) => method !== "GET")).toEqual([]);
  });

  test("makes the changes with --yes, and finds nothing to do afterwards", async () => {
    const sent = answers({
      ...stored,
      "GET /v1/tenants/acme": tenant(7),
      "PATCH /v1/tenants/acme": tenant(30),
    });
    expect((await breakwater(["apply", "-f", "-", "--yes"], { input: yaml })).code).toBe(0);
    expect(sent.at(-1)).toMatchObject({ method: "PATCH", body: { retention_days: 30 } });
    answers({ ...stored, "GET /v1/tenants/acme": tenant(30) });
    const again = await breakwater(["apply", "-f", "-"], { input: yaml });
    expect([again.code, again.out, again.error]).toEqual([0, "", "Nothing to change.\n"]);
  });

  test("leaves each digit of an example that the file does not name", async () => {
    const type = '{"name":"order.paid","version":1,"example":{"id":1187465291838226432,"price":1.10}}';
    const path = "/v1/event-types/order.paid";
    const sent = answers({ ...api, [`GET ${path}`]: { body: type }, [`PUT ${path}`]: { body: {} } });
    const input = "event_types: { order.paid: { description: Paid } }";
    expect((await breakwater(["apply", "-f", "-", "--yes"], { input })).code).toBe(0);
    expect(sent.at(-1)?.sentText).toBe(
      '{"example":{"id":1187465291838226432,"price":1.10},"description":"Paid"}',
    );
  });

  test("sends each digit of an example in a file of YAML, and finds nothing to do afterwards", async () => {
    const path = "/v1/event-types/order.paid";
    const sent = answers({ ...api, [`GET ${path}`]: problem(404, "None"), [`PUT ${path}`]: { body: {} } });
    const input =
      "event_types:\n  order.paid:\n    retention_days: 7.0\n    example: {id: 1187465291838226432, price: 1.10, n: +5}";
    const { code, out } = await breakwater(["apply", "-f", "-", "--yes"], { input });
    expect([code, out]).toEqual([0, expect.stringContaining('"id":1187465291838226432,"price":1.10,"n":5')]);
    const text = '{"retention_days":7,"example":{"id":1187465291838226432,"price":1.10,"n":5}}';
    expect(sent.at(-1)?.sentText).toBe(text);
    answers({ ...api, [`GET ${path}`]: { body: text } });
    expect((await breakwater(["apply", "-f", "-"], { input })).error).toBe("Nothing to change.\n");
  });

  test("says where it stopped when a step is refused", async () => {
    answers({ ...stored, "GET /v1/tenants/acme": tenant(7), "PATCH /v1/tenants/acme": problem(403, "No") });
    const { code, error } = await breakwater(["apply", "-f", "-", "--yes"], { input: yaml });
    expect([code, error]).toEqual([3, "tenant acme failed; 0 of 1 steps were made\nbreakwater: No\n"]);
  });

  test.each([
    ["keys:\n  a: [", "-, line 2: the file is neither YAML nor JSON"],
    ["event_types:\n  a: 1", "-, line 2: event_types.a is a number; expected a map"],
    ["keys: {}\nkeys: {}", "-, line 2: the file is neither YAML nor JSON"],
    [
      "tenants:\n  acme:\n    destinations:\n      a:\n        url: x\n        colour: s3cret",
      "-, line 6: tenants.acme.destinations.a.colour is unknown; expected one of url\n",
    ],
  ])("refuses the file %j with the line, and repeats no value of it", async (input, text) => {
    answers(api);
    const { code, error } = await breakwater(["apply", "-f", "-"], { input });
    expect([code, error]).toEqual([2, expect.stringContaining(text)]);
    expect(error).not.toContain("s3cret");
  });

  test("names that read as numbers stay as they are written", async () => {
    const settings = "{ settings: { retention_days: 30 } }";
    const input = `tenants:\n  007: ${settings}\n  1187465291838226432: ${settings}\n  1.10: ${settings}\n`;
    const names = ["007", "1187465291838226432", "1.10"];
    answers({ ...api, ...Object.fromEntries(names.map((name) => [`GET /v1/tenants/${name}`, tenant(7)])) });
    const { out } = await breakwater(["apply", "-f", "-"], { input });
    expect(out.match(/(?<=~ tenant ).*/g)).toEqual(names);
  });

  test("a field that the API refuses is named with its line", async () => {
    const errors = [{ field: "url", fault: "is no URL", expected: "an https URL" }];
    answers({
      ...api,
      "GET /v1/destinations": page(),
      "POST /v1/destinations": problem(422, "A field is invalid", errors),
    });
    const input = "tenants:\n  acme:\n    destinations:\n      a:\n        url: x";
    const args = ["apply", "-f", "-", "--yes", "--save-secrets", join(home, "refused")];
    const { code, error } = await breakwater(args, { input });
    expect([code, error]).toEqual([
      6,
      expect.stringContaining("line 5: url is no URL; expected an https URL"),
    ]);
  });

  describe("new keys and secrets", () => {
    const input = "keys: { ci: { scopes: [read] } }\ntenants: { acme: { destinations: { a: { url: x } } } }";
    const routes = {
      ...api,
      "GET /v1/keys": page(),
      "GET /v1/destinations": page(),
      "POST /v1/keys": { status: 201, body: { id: "key_1", key: "bw_new" } },
      "POST /v1/destinations": { status: 201, body: { id: "dst_1", secret: "whsec_new" } },
    };
    const saved = join(home, "saved.jsonl");

    test("go to a file that only the user can read, and are not printed", async () => {
      answers(routes);
      writeFileSync(saved, "", { mode: 0o644 });
      const results = [];
      for (const flags of [[], ["--json"]])
        results.push(
          await breakwater(["apply", "-f", "-", "--yes", "--save-secrets", saved, ...flags], { input }),
        );
      for (const { code, out, error } of results) {
        expect([code, error]).toEqual([0, ""]);
        expect(out).toContain("key_1");
        expect(out).not.toMatch(/_new/);
      }
      expect(statSync(saved).mode & 0o777).toBe(0o600);
      const lines = readFileSync(saved, "utf8").trim().split("\n").slice(2);
      expect(lines.map((line) => JSON.parse(line))).toEqual([
        { kind: "destination", name: "acme/a", id: "dst_1", secret: "whsec_new" },
        { kind: "key", name: "ci", id: "key_1", key: "bw_new" },
      ]);
    });

    test.each([
      ["no file", [], "--save-secrets <file> stores them. Nothing was changed"],
      ["a file that cannot be written", ["--save-secrets", join(home, "none/file")], "cannot be written"],
    ])("with %s nothing is changed", async (_, flags, text) => {
      const sent = answers(routes);
      const { code, error } = await breakwater(["apply", "-f", "-", "--yes", ...flags], { input });
      expect([code, error]).toEqual([2, expect.stringContaining(text)]);
      expect(sent.filter(({ method }) => method !== "GET")).toEqual([]);
    });
  });
});

test("open prints the page of an id, and opens nothing without a terminal", async () => {
  const addressOf = async (...args: string[]) => (await breakwater(["open", ...args])).out.trim();
  expect(await addressOf()).toBe(`${url}/dashboard`);
  expect(await addressOf(DELIVERY)).toBe(`${url}/dashboard/events/${EVENT}#${DELIVERY}`);
  expect((await breakwater(["open", "../v1"])).code).toBe(2);
});

describe("verify", () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  const body = join(home, "body.json");
  writeFileSync(body, '{"type":"a"}');

  function argsAt(at: Date): string[] {
    const headers = {
      "Webhook-Id": "evt_1",
      "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
      "webhook-signature": `v1a,other ${new Webhook(secret).sign("evt_1", at, '{"type":"a"}')}`,
    };
    return [
      "verify",
      "--body",
      body,
      ...Object.entries(headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]),
    ];
  }

  test("takes the bytes of a body that is no text", async () => {
    const bytes = Buffer.from([0x89, 0xff, 0xfe]);
    const at = Math.floor(Date.now() / 1000);
    const mac = createHmac("sha256", Buffer.alloc(32, 7)).update(`evt_1.${at}.`).update(bytes);
    const file = join(home, "body.bin");
    writeFileSync(file, bytes);
    const headers = [
      `webhook-id: evt_1`,
      `webhook-timestamp: ${at}`,
      `webhook-signature: v1,${mac.digest("base64")}`,
    ];
    const args = ["verify", "--body", file, ...headers.flatMap((header) => ["--header", header])];
    expect((await breakwater(args, { input: secret, env: {} })).code).toBe(0);
  });

  test.each([
    ["a right signature", new Date(), secret, 0, "The signature of evt_1 is valid"],
    [
      "an old one",
      new Date(Date.now() - DAY),
      secret,
      8,
      "is valid, but receivers now refuse it: Message timestamp too old",
    ],
    [
      "one of another secret",
      new Date(),
      `whsec_${Buffer.alloc(32, 8).toString("base64")}`,
      8,
      "No matching signature",
    ],
    ["no secret", new Date(), "", 2, ""],
  ])("says of %s what is wrong", async (_, at, input, code, text) => {
    const result = await breakwater(argsAt(at), { input, env: {} });
    expect([result.code, result.out]).toEqual([code, expect.stringContaining(text)]);
  });
});

describe("failures", () => {
  test.each([
    ["a refusal of the key", problem(403, "The key lacks the scope admin"), 3],
    ["an unknown id", problem(404, "There is no key"), 4],
    ["a conflict", problem(409, "Conflict"), 5],
    ["a limit", { ...problem(429, "Too many"), headers: { "retry-after": "3600" } }, 7],
    ["an error of the deployment", problem(500, "Internal"), 7],
  ])("%s has its own exit code", async (_, answer, code) => {
    answers({ "GET /v1/keys": answer });
    expect((await breakwater(["keys", "list"])).code).toBe(code);
  });

  test("an invalid field is named, and JSON is the whole problem", async () => {
    const errors = [{ field: "url", fault: 'is "x"', expected: "an https URL" }];
    answers({ "POST /v1/destinations": problem(422, "A field is invalid", errors) });
    const create = ["destinations", "create", "--url", "x"];
    const { code, error } = await breakwater(create);
    expect([code, error]).toEqual([
      6,
      'breakwater: A field is invalid\n  url is "x"; expected an https URL\n',
    ]);
    expect(JSON.parse((await breakwater([...create, "--json"])).error)).toMatchObject({
      status: 422,
      errors,
    });
  });

  test.each([
    [["events", "lsit"], "There is no command events lsit"],
    [["events", "list", "--stat", "x"], "--stat"],
    [["events", "get"], "needs <id>"],
    [["events", "get", "a", "b"], "Unexpected argument: b"],
    [["events", "list", "--limit", "many"], "--limit is many; expected a number"],
    [["events", "list", "--limit", "0"], "--limit is 0; expected a whole number from 1 on"],
    [["deliveries", "list", "--limit", "1.5"], "--limit is 1.5; expected a whole number from 1 on"],
    [["tail", "--limit", "0"], "--limit is 0; expected a whole number from 1 on"],
    [["listen", "3000", "--concurrency", "0"], "--concurrency is 0; expected a whole number from 1 on"],
    [["deliveries", "list", "--state", "lost"], "expected one of queued, waiting"],
  ])("%j is a mistake in the command line", async (args, text) => {
    const { code, error } = await breakwater(args);
    expect([code, error]).toEqual([2, expect.stringContaining(text)]);
  });

  test("a key that cannot be a header is refused, and not repeated", async () => {
    const env = { BREAKWATER_URL: url, BREAKWATER_KEY: "s3cret\nkey" };
    const { code, error } = await breakwater(["keys", "list"], { env });
    expect([code, error]).toEqual([2, "breakwater: The key has characters that a key cannot contain\n"]);
  });

  test.each(["nobody", "constructor"])("without a profile there is a hint: %s", async (name) => {
    const { code, error } = await breakwater(["keys", "list", "--profile", name], { env: {} });
    expect([code, error]).toEqual([3, expect.stringContaining("breakwater login")]);
  });
});

test("every command has help, and completion knows every command", async () => {
  const overview = (await breakwater(["--help"])).out;
  const names = [...overview.matchAll(/^ {2}([a-z-]+(?: [a-z]+)?) .*? {2}/gm)].map(([, name = ""]) => name);
  expect(names.length).toBeGreaterThan(28);
  for (const shell of ["bash", "zsh", "fish"])
    expect((await breakwater(["completion", shell])).out).toContain("breakwater completion words");
  const help = await breakwater(["deliveries", "why", "--help"]);
  expect([help.code, help.out]).toEqual([
    0,
    expect.stringContaining("Usage: breakwater deliveries why <id>"),
  ]);
  const words = async (...typed: string[]) =>
    (await breakwater(["completion", "words", "--", ...typed])).out.trim().split("\n");
  expect(await words("deliveries", "")).toEqual(["list", "why", "retry", "cancel"]);
  expect(await words("replays", "create", "--include", "d")).toEqual(["dead", "delivered"]);
  expect(await words("ev")).toEqual(["events", "event-types"]);
  expect(await words("completion", "z")).toEqual(["zsh"]);
});
