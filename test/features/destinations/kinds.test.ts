/** Destinations besides https endpoints, through the API: created, shown, changed, refused. */
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { openToken } from "../../../src/delivery/kinds/token.ts";
import type { DestinationBinding } from "../../../src/destination-bindings.ts";
import { vaultOf } from "../../../src/secrets/vault.ts";
import { findDestination } from "../../../src/store/destinations.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { queueBinding, serviceBinding } from "../../support/bindings.ts";
import { receivers } from "../../support/receivers.ts";
import { keysOf, MASTER_KEYS, vault } from "../../support/vault.ts";

const ACCOUNT = "023e105f4ecef8ad9ca31a8372d0c353";
const QUEUE = "f1e2d3c4b5a697887766554433221100";
const OTHER = "00112233445566778899aabbccddeeff";
const TOKEN = "cfut_0123456789abcdefghijKLMNOPQRSTUV";
const NEWER = "cfut_ZYXWVUTSRQPONMLKJIHGFEDCBA987654";

const receiver = receivers();
const destinationBindings = new Map<string, DestinationBinding>([
  ["ORDERS", queueBinding(receiver, "ORDERS", ["acme"])],
  ["AUDIT", queueBinding(receiver, "AUDIT")],
  ["BILLING", serviceBinding(receiver, ["acme"])],
]);
const services = { destinationBindings };
const { call, gateCalls, log } = testApi({ services });

beforeEach(emptyDatabase);

const post = (fields: object) => call("POST", "/v1/destinations", { tenant: "acme", ...fields });
const patch = (id: string, fields: object) => call("PATCH", `/v1/destinations/${id}`, fields);

async function created(fields: object): Promise<string> {
  const { status, json, text } = await post(fields);
  expect(status, text).toBe(201);
  return json.id;
}

async function rowOf(id: string) {
  const row = await findDestination(env.DB, id, undefined);
  if (!row) throw new Error("It is there");
  return row;
}

const foreign = { kind: "queue", account_id: ACCOUNT, queue_id: QUEUE };

describe("a destination of another kind", () => {
  test.each([
    [{ kind: "queue", binding: "ORDERS" }, { kind: "queue", binding: "ORDERS" }, "queue:ORDERS"],
    [{ kind: "queue", binding: "AUDIT", url: undefined }, { kind: "queue", binding: "AUDIT" }, "queue:AUDIT"],
    [{ ...foreign, token: TOKEN }, foreign, `queue:${ACCOUNT}/${QUEUE}`],
    [
      { kind: "service", binding: "BILLING" },
      { kind: "service", binding: "BILLING", path: "/" },
      "service:BILLING/",
    ],
    [
      { kind: "service", binding: "BILLING", path: "/hook?a=b:c", account_id: null },
      { kind: "service", binding: "BILLING", path: "/hook?a=b:c" },
      "service:BILLING/hook?a=b:c",
    ],
  ])("is created as %j and shown without a URL or a token", async (given, shown, stored) => {
    const answer = await post(given);
    expect(answer.status, answer.text).toBe(201);
    const { id } = answer.json;
    const read = await call("GET", `/v1/destinations/${id}`);
    for (const { json, text } of [answer, read]) {
      expect(json).toMatchObject({ ...shown, status: "active", signature: "hmac-sha256" });
      for (const field of ["url", "token"]) expect(json).not.toHaveProperty(field);
      expect(text).not.toContain(TOKEN);
    }
    expect((await rowOf(id)).url).toBe(stored);
    expect(JSON.stringify(log)).not.toContain(TOKEN);
  });

  test("has its token sealed for itself only, apart from its signing secret", async () => {
    const row = await rowOf(await created({ ...foreign, token: TOKEN }));
    expect(row.targetToken).not.toContain(TOKEN);
    expect(await openToken(vault, row.id, row.targetToken ?? "")).toBe(TOKEN);
    await expect(vault.unseal(row.id, row.targetToken ?? "")).rejects.toThrow();
    await expect(openToken(vault, row.id, row.secret)).rejects.toThrow();
  });

  test("is https if only a URL is given, as before there were other kinds", async () => {
    const { json } = await post({ url: "https://example.com/hook" });
    expect(json).toMatchObject({ kind: "https", url: "https://example.com/hook" });
    expect((await post({ kind: "https", url: "https://example.com/hook" })).status).toBe(201);
    expect((await post({ kind: null, url: "https://example.com/hook", binding: null })).status).toBe(201);
  });

  test("that was edited in the database into something unreadable is shown by its kind, and can be corrected", async () => {
    const id = await created({ kind: "service", binding: "BILLING" });
    await env.DB.prepare("UPDATE destinations SET url = 'service:' WHERE id = ?1").bind(id).run();
    const { json } = await call("GET", `/v1/destinations/${id}`);
    expect(json).toMatchObject({ id, kind: "service" });
    expect((await patch(id, { description: "x" })).status).toBe(200);
    expect((await patch(id, { binding: "BILLING", path: "/x" })).json).toMatchObject({ path: "/x" });
  });
});

describe("POST /v1/destinations/:id/test", () => {
  const api = testApi({ services: { ...services, gates: env.GATES, fetch: receiver.fetch } });
  const run = (id: string) => api.call("POST", `/v1/destinations/${id}/test`);

  test.each([
    [{ kind: "queue", binding: "ORDERS" }, 202, "queue:ORDERS"],
    [{ kind: "service", binding: "BILLING" }, 204, "service:BILLING/"],
  ])("of %j shows the target, the headers and the body that were sent", async (target, expected, url) => {
    const { status, json } = await run(await created(target));
    expect(status).toBe(200);
    expect(json).toMatchObject({ status: expected, sent: { url } });
    expect(json.sent.headers["webhook-signature"]).toMatch(/^v1,/);
    expect(JSON.parse(json.sent.body).type).toBe("breakwater.test");
  });

  test("says why it was not sent, if the binding is gone or the token cannot be opened", async () => {
    const gone = await created({ kind: "queue", binding: "ORDERS" });
    await env.DB.prepare("UPDATE destinations SET url = 'queue:GONE' WHERE id = ?1").bind(gone).run();
    expect(await run(gone)).toMatchObject({
      status: 409,
      json: { detail: expect.stringContaining("binding") },
    });
    const sealed = await created({ ...foreign, token: TOKEN });
    await env.DB.prepare("UPDATE destinations SET target_token = 'x' WHERE id = ?1").bind(sealed).run();
    expect(await run(sealed)).toMatchObject({
      status: 409,
      json: { detail: expect.stringContaining("token") },
    });
  });
});

type Refusal = readonly [fields: object, field: string, fault: string, expected: string];

const refusals: readonly Refusal[] = [
  [{ kind: "kafka" }, "kind", 'is "kafka"', "one of https, queue, service"],
  [{ kind: 7, url: "https://example.com/" }, "kind", "is 7", "one of https, queue, service"],
  [{ kind: "toString" }, "kind", 'is "toString"', "one of https, queue, service"],
  [{ kind: "https" }, "url", "is missing", "an https URL"],
  [{ kind: "queue" }, "binding", "is missing", "a binding, or account_id, queue_id and token"],
  [{ kind: "service" }, "binding", "is missing", "the binding of a service"],
  [
    { kind: "queue", binding: "ORDERS", url: "https://example.com/" },
    "url",
    "is not a field of the kind queue",
    "only binding, account_id, queue_id, token",
  ],
  [
    { kind: "https", url: "https://example.com/", binding: "ORDERS" },
    "binding",
    "is not a field of the kind https",
    "only url",
  ],
  [{ url: "https://example.com/", path: "/x" }, "path", "is not a field of the kind https", "only url"],
  [
    { kind: "service", binding: "BILLING", token: TOKEN },
    "token",
    "is not a field of the kind service",
    "only binding, path",
  ],
  [
    { kind: "queue", binding: "ORDERS", token: TOKEN },
    "token",
    "is given together with binding",
    "one or the other",
  ],
  [
    { kind: "queue", account_id: ACCOUNT, queue_id: QUEUE },
    "token",
    "is missing",
    "it together with account_id and queue_id, or a binding instead",
  ],
  [{ ...foreign, account_id: "ACME", token: TOKEN }, "account_id", 'is "ACME"', "32 hexadecimal digits"],
  [{ ...foreign, queue_id: "../../x", token: TOKEN }, "queue_id", 'is "../../x"', "32 hexadecimal digits"],
  [
    { ...foreign, token: "s3cret with spaces in" },
    "token",
    "is a string of 21 characters",
    "an API token of 20 to 500 characters without spaces",
  ],
  [{ ...foreign, token: 7 }, "token", "is a number", "an API token of 20 to 500 characters without spaces"],
  [{ kind: "queue", binding: 7 }, "binding", "is 7", "the name of a binding"],
  [{ kind: "queue", binding: "OR DERS" }, "binding", 'is "OR DERS"', "the name of a binding"],
  [{ kind: "queue", binding: "NOBODY" }, "binding", 'is "NOBODY", which is not known', "a binding that"],
  [
    { kind: "queue", binding: "__proto__" },
    "binding",
    'is "__proto__", which is not known',
    "a binding that",
  ],
  [
    { kind: "queue", binding: "BILLING" },
    "binding",
    'is "BILLING", the binding of a service',
    "the binding of a queue",
  ],
  [
    { kind: "service", binding: "AUDIT" },
    "binding",
    'is "AUDIT", the binding of a queue',
    "the binding of a service",
  ],
  ...["hook", "//evil\\", "/a/../b", "/a#b", "/ü", "/a b", `/${"x".repeat(1024)}`, ""].map(
    (path): Refusal => [
      { kind: "service", binding: "BILLING", path },
      "path",
      path.length > 60 ? `is a string of ${path.length} characters` : `is ${JSON.stringify(path)}`,
      "a path such as /hook",
    ],
  ),
  [
    { kind: "queue", binding: "ORDERS", handshake: true },
    "handshake",
    "is for the kind https, and this one is queue",
    "no handshake",
  ],
];

describe("is refused, and nothing is stored", () => {
  test.each(refusals)("%j", async (fields, field, fault, expected) => {
    const { status, json, text } = await post(fields);
    expect(status, text).toBe(422);
    expect(json.errors).toEqual([{ field, fault, expected: expect.stringContaining(expected) }]);
    expect(text).not.toContain("s3cret");
    expect((await call("GET", "/v1/destinations")).json.data).toEqual([]);
  });

  test("a binding of another tenant, in the words for one that does not exist", async () => {
    const answer = async (binding: string) => {
      const { status, text } = await call("POST", "/v1/destinations", {
        kind: "queue",
        binding,
        tenant: "globex",
      });
      return [status, text.replaceAll(binding, "…")];
    };
    expect(await answer("ORDERS")).toEqual(await answer("NOBODY"));
    expect((await answer("ORDERS"))[0]).toBe(422);
    // Values of another type, too.
    expect(await answer("BILLING")).toEqual(await answer("NOBODY"));
  });

  test("a binding of another tenant, to a key that is bound to one", async () => {
    const principal = { scopes: ["admin"], tenant: "globex" } as const;
    const other = testApi({ services, authenticate: async () => principal });
    const refused = await other.call("POST", "/v1/destinations", { kind: "queue", binding: "ORDERS" });
    expect(refused).toMatchObject({ status: 422, json: { errors: [{ field: "binding" }] } });
    const named = { kind: "queue", binding: "ORDERS", tenant: "acme" };
    expect((await other.call("POST", "/v1/destinations", named)).status).toBe(403);
  });

  test("all fields at once, those of the target among them", async () => {
    const { json } = await post({ kind: "queue", url: "http://localhost/", timeout_ms: 1, color: "red" });
    expect(json.errors.map(({ field }: { field: string }) => field).toSorted()).toEqual([
      "binding",
      "color",
      "timeout_ms",
      "url",
      "url",
    ]);
  });
});

describe("PATCH", () => {
  test("changes a target within its kind, keeps omitted fields, and begins again with one attempt", async () => {
    const id = await created({ kind: "service", binding: "BILLING", path: "/hook" });
    const change = async (fields: object) => (await patch(id, fields)).json;
    gateCalls.splice(0);
    expect(await change({ description: "x" })).toMatchObject({ binding: "BILLING", path: "/hook" });
    expect(gateCalls).toEqual([]);
    expect(await change({ path: "/other" })).toMatchObject({ binding: "BILLING", path: "/other" });
    expect(gateCalls).toEqual([`resume ${id}`]);
    expect(await change({ path: null, kind: "service" })).toMatchObject({ binding: "BILLING", path: "/" });
  });

  test("replaces the token, or keeps it when only the queue changes", async () => {
    const id = await created({ ...foreign, token: TOKEN });
    const token = async () => openToken(vault, id, (await rowOf(id)).targetToken ?? "");
    expect((await patch(id, { queue_id: OTHER })).json).toMatchObject({
      account_id: ACCOUNT,
      queue_id: OTHER,
    });
    expect(await token()).toBe(TOKEN);
    const { status, text } = await patch(id, { token: NEWER });
    expect(status).toBe(200);
    expect(text).not.toContain(NEWER);
    expect(await token()).toBe(NEWER);
    expect((await rowOf(id)).url).toBe(`queue:${ACCOUNT}/${OTHER}`);
  });

  test("moves from a queue of another account to a binding, and drops everything of the former", async () => {
    const id = await created({ ...foreign, token: TOKEN });
    expect(await patch(id, { binding: "ORDERS" })).toMatchObject({ status: 422 });
    const fields = { binding: "ORDERS", account_id: null, queue_id: null, token: null };
    expect((await patch(id, fields)).json).toMatchObject({ kind: "queue", binding: "ORDERS" });
    expect(await rowOf(id)).toMatchObject({ url: "queue:ORDERS", targetToken: null });
  });

  test.each([
    [{ kind: "https", url: "https://example.com/" }, "kind", "is https", "queue, as it is"],
    [{ kind: null }, "kind", "is https", "queue, as it is"],
    [{ kind: "service" }, "kind", "is service", "queue, as it is"],
    [{ url: "https://example.com/" }, "url", "is not a field of the kind queue", "only binding"],
    [{ path: "/x" }, "path", "is not a field of the kind queue", "only binding"],
    [{ binding: null }, "binding", "is missing", "a binding, or account_id"],
    [{ binding: "NOBODY" }, "binding", 'is "NOBODY", which is not known', "the tenant acme"],
    [{ binding: "BILLING" }, "binding", 'is "BILLING", the binding of a service', "the binding of a queue"],
    [{ token: TOKEN }, "token", "is given together with binding", "one or the other"],
    [{ binding: "AUDIT", token: 7 }, "token", "is a number", "an API token"],
  ])("refuses %j of a queue, and changes nothing", async (fields, field, fault, expected) => {
    const id = await created({ kind: "queue", binding: "ORDERS" });
    const before = await rowOf(id);
    const { status, json, text } = await patch(id, fields);
    expect(status, text).toBe(422);
    expect(json.errors).toEqual([{ field, fault, expected: expect.stringContaining(expected) }]);
    expect(await rowOf(id)).toEqual(before);
  });

  test("refuses to make an https destination one of another kind", async () => {
    const id = await created({ url: "https://example.com/" });
    const { status, json } = await patch(id, { kind: "queue", binding: "ORDERS" });
    expect(status).toBe(422);
    expect(json.errors).toMatchObject([{ field: "kind", fault: "is queue" }]);
    expect(await patch(id, { url: "queue:ORDERS" })).toMatchObject({ status: 422 });
    expect(await patch(id, { binding: "ORDERS" })).toMatchObject({ status: 422 });
  });

  test("of two fields by two callers at the same time leaves both, or refuses one", async () => {
    const id = await created({ kind: "service", binding: "BILLING", path: "/a" });
    const answers = await Promise.all([patch(id, { path: "/b" }), patch(id, { binding: "BILLING" })]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect((await rowOf(id)).url).toBe("service:BILLING/b");
  });
});

test("whatever the fields of a target are, the answer is 201 or 422, and the stored target reads as it was given", async () => {
  const value = fc.oneof(
    fc.constantFrom(
      "ORDERS",
      "BILLING",
      "AUDIT",
      ACCOUNT,
      TOKEN,
      "/",
      "/x",
      "queue:ORDERS",
      "",
      "__proto__",
      null,
      1,
      {},
      [],
    ),
    fc.string({ unit: "binary", maxLength: 40 }),
    fc.webUrl(),
  );
  const optional = fc.option(value, { nil: undefined });
  const fields = fc.record({
    kind: fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom("https", "queue", "service", undefined) },
      optional,
    ),
    url: optional,
    binding: optional,
    path: optional,
    account_id: optional,
    queue_id: optional,
    token: optional,
  });
  await fc.assert(
    fc.asyncProperty(fields, async (given) => {
      const { status, json, text } = await post(given);
      expect([201, 422], text).toContain(status);
      if (status === 201)
        for (const [field, shown] of Object.entries(given))
          if (field !== "token" && shown != null) expect(json[field]).toEqual(shown);
    }),
    { numRuns: 200 },
  );
});

test("authentication is refused for a queue, which gets no requests, and taken for a service", async () => {
  const auth = { kind: "bearer", token: "t".repeat(30) };
  const { json, status } = await call("POST", "/v1/destinations", { ...foreign, token: TOKEN, auth });
  expect([status, json.errors]).toMatchObject([422, [{ field: "auth" }]]);
  const id = await created({ ...foreign, token: TOKEN });
  expect((await patch(id, { auth })).json.errors).toMatchObject([{ field: "auth" }]);
  await created({ kind: "service", binding: "BILLING", auth });
});

test("the rotation of the master key seals tokens again, also one whose secret is already sealed with the new key", async () => {
  const newer = `k2:${btoa("2".repeat(32))}`;
  const [both, newest] = [vaultOf(keysOf(`${newer},${MASTER_KEYS}`)), vaultOf(keysOf(newer))];
  const id = await created({ ...foreign, token: TOKEN });
  const before = await rowOf(id);
  const admin = testApi({ services: { vault: both } });
  const rotate = () => admin.call("POST", "/v1/rotate-master-key");
  expect((await rotate()).json).toMatchObject({ rotated: 1, unreadable: [] });
  expect(await openToken(newest, id, (await rowOf(id)).targetToken ?? "")).toBe(TOKEN);
  await env.DB.prepare("UPDATE destinations SET target_token = ?1").bind(before.targetToken).run();
  expect((await rotate()).json).toMatchObject({ rotated: 1, unreadable: [] });
  expect(await openToken(newest, id, (await rowOf(id)).targetToken ?? "")).toBe(TOKEN);
  expect((await rotate()).json).toMatchObject({ rotated: 0 });
  await env.DB.prepare("UPDATE destinations SET target_token = ?1").bind(before.secret).run();
  expect((await rotate()).json).toMatchObject({ rotated: 0, unreadable: [id] });
});

test("a token that is replaced while the master key is rotated stays the new one", async () => {
  const newer = `k2:${btoa("2".repeat(32))}`;
  const both = vaultOf(keysOf(`${newer},${MASTER_KEYS}`));
  const id = await created({ ...foreign, token: TOKEN });
  let isChanged = false;
  const sealAgain = async (place: string, sealed: string) => {
    if (!isChanged) {
      isChanged = true;
      await patch(id, { token: NEWER });
    }
    return both.sealAgain(place, sealed);
  };
  await testApi({ services: { vault: { ...both, sealAgain } } }).call("POST", "/v1/rotate-master-key");
  const row = await rowOf(id);
  expect(await openToken(both, id, row.targetToken ?? "")).toBe(NEWER);
  expect(both.isCurrent(row.secret)).toBe(true);
});
