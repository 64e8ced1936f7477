/** Applications in the Svix API: each is a tenant; and the shapes of errors, which all routes have in common. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, test } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { everythingStored } from "../../support/operations.ts";

const { call } = testApi({ create: createSvixApi });
const AT = "2026-11-21T09:00:00.000Z";

beforeEach(emptyDatabase);

const create = async (body: object, headers = {}) => (await call("POST", "/api/v1/app", body, headers)).json;

describe("errors have the shape of the Svix API", () => {
  it.each<[string, string, string, number, string]>([
    ["GET", "/api/v1/app/none", "", 404, "not_found"],
    ["GET", "/api/v1/ingest/api/v1/source", "", 501, "not_implemented"],
    ["DELETE", "/api/v1/app", "", 501, "not_implemented"],
    ["POST", "/api/v1/app", "{", 400, "bad_request"],
  ])("%s %s with %j is %i %s", async (method, path, body, status, code) => {
    const answer = await call(method, path, body || undefined);
    expect([answer.status, answer.json]).toEqual([status, { code, detail: expect.any(String) }]);
  });

  test("a route that is not supported names itself, and needs a key first", async () => {
    const { json } = await call("GET", "/api/v1/stream");
    expect(json.detail).toContain("GET /api/v1/stream is not supported");
    const without = await call("GET", "/api/v1/stream", undefined, { authorization: null });
    expect([without.status, without.json.code]).toEqual([401, "authentication_failed"]);
    expect(without.headers.get("www-authenticate")).toBe("Bearer");
  });

  it.each<[string, string, object | undefined, readonly string[], string]>([
    ["POST", "/api/v1/app", {}, ["body", "name"], "value_error.missing"],
    ["POST", "/api/v1/app", { name: "" }, ["body", "name"], "value_error"],
    ["POST", "/api/v1/app", { name: "a".repeat(257) }, ["body", "name"], "value_error"],
    ["POST", "/api/v1/app", { name: "a", uid: "a b" }, ["body", "uid"], "value_error"],
    ["POST", "/api/v1/app", { name: "a", uid: "a".repeat(257) }, ["body", "uid"], "value_error"],
    ["POST", "/api/v1/app", { name: "a", throttleRate: 0 }, ["body", "throttleRate"], "value_error"],
    ["POST", "/api/v1/app", { name: "a", metadata: { a: 1 } }, ["body", "metadata", "a"], "value_error"],
    ["POST", "/api/v1/app?get_if_exists=1", { name: "a" }, ["query", "get_if_exists"], "value_error"],
    ["GET", "/api/v1/app?limit=251", undefined, ["query", "limit"], "value_error"],
    ["GET", "/api/v1/app?order=newest", undefined, ["query", "order"], "value_error"],
    ...["no", "disabled", "svix_play"].map((which): [string, string, undefined, string[], string] => {
      const field = `exclude_apps_with_${which}_endpoints`;
      return ["GET", `/api/v1/app?${field}=true`, undefined, ["query", field], "value_error"];
    }),
  ])("%s %s with %j is a 422 at %j", async (method, path, body, loc, type) => {
    const { status, json } = await call(method, path, body);
    expect([status, json]).toEqual([422, { detail: [{ loc, msg: expect.any(String), type }] }]);
  });

  test("health needs no key", async () => {
    expect((await call("GET", "/api/v1/health", undefined, { authorization: null })).status).toBe(204);
  });
});

describe("an application", () => {
  const full = { name: "Acme", uid: "acme-1_x.Y", throttleRate: 7, metadata: { plan: "pro" } };

  it("is shown as it was created, by id and by uid, and ignores unknown fields", async () => {
    const created = await create({ ...full, notKnown: 1 });
    expect(created).toEqual({
      ...full,
      id: expect.stringMatching(/^app_[0-9a-z]{20}$/),
      rateLimit: 7,
      createdAt: AT,
      updatedAt: AT,
    });
    for (const name of [created.id, full.uid])
      expect((await call("GET", `/api/v1/app/${name}`)).json).toEqual(created);
  });

  it("is refused with a uid that another has, or returned with get_if_exists", async () => {
    const { id } = await create(full);
    const again = await call("POST", "/api/v1/app", { name: "B", uid: full.uid });
    expect([again.status, again.json.code]).toEqual([409, "conflict"]);
    const got = await call("POST", "/api/v1/app?get_if_exists=true", { name: "B", uid: full.uid });
    expect([got.status, got.json]).toMatchObject([200, { id, name: "Acme" }]);
  });

  it.each([6, 300])("is created once under an idempotency key of %i characters", async (length) => {
    const headers = { "idempotency-key": "k".repeat(length) };
    const first = await call("POST", "/api/v1/app", { name: "A" }, headers);
    const second = await call("POST", "/api/v1/app", { name: "A" }, headers);
    expect([first.status, second.status, second.json]).toEqual([201, 201, first.json]);
    expect((await call("GET", "/api/v1/app")).json.data).toHaveLength(1);
  });

  it("keeps omitted fields with PATCH, and resets them with PUT", async () => {
    await create(full);
    const patched = await call("PATCH", `/api/v1/app/${full.uid}`, { name: "New" });
    expect(patched.json).toMatchObject({ ...full, name: "New" });
    const put = await call("PUT", `/api/v1/app/${full.uid}`, { name: "Put" });
    expect(put.json).toMatchObject({ name: "Put", uid: null, throttleRate: null, metadata: {} });
  });

  it("may not take the uid of another in a change", async () => {
    await create(full);
    const { id } = await create({ name: "B", uid: "b" });
    const { status } = await call("PATCH", `/api/v1/app/${id}`, { uid: full.uid });
    expect(status).toBe(409);
    expect((await call("GET", `/api/v1/app/${id}`)).json.uid).toBe("b");
  });

  it("is created by PUT with an unused uid, but not with an id", async () => {
    const put = await call("PUT", "/api/v1/app/new-one", { name: "N" });
    expect([put.status, put.json.uid]).toEqual([201, "new-one"]);
    expect((await call("PUT", "/api/v1/app/app_none", { name: "N" })).status).toBe(404);
    expect((await call("PUT", "/api/v1/app/other", { name: "N", uid: "another" })).status).toBe(404);
  });

  it("is gone when it is deleted, and its uid is free", async () => {
    await create(full);
    expect((await call("DELETE", `/api/v1/app/${full.uid}`)).status).toBe(204);
    expect((await call("GET", `/api/v1/app/${full.uid}`)).status).toBe(404);
    expect((await create(full)).uid).toBe(full.uid);
  });

  it.each(["ascending", "descending"])("is listed in %s order, page by page", async (order) => {
    for (const name of ["a", "b", "c"]) await create({ name });
    const ids = (await call("GET", `/api/v1/app?order=${order}`)).json.data.map(
      ({ id }: { id: string }) => id,
    );
    expect(ids).toEqual(order === "ascending" ? ids.toSorted() : ids.toSorted().reverse());
    const first = (await call("GET", `/api/v1/app?limit=2&order=${order}`)).json;
    expect(first).toMatchObject({ iterator: ids[1], prevIterator: null, done: false });
    const rest = (await call("GET", `/api/v1/app?limit=2&order=${order}&iterator=${first.iterator}`)).json;
    expect([rest.data[0].id, rest.data.length, rest.done]).toEqual([ids[2], 1, true]);
  });

  it("is all that a key of its tenant sees, which cannot create others", async () => {
    const { id } = await create(full);
    const other = await create({ name: "B", uid: "b" });
    const bound = testApi({ create: createSvixApi, authenticate: async () => ({ tenant: id, scopes }) });
    expect((await bound.call("GET", "/api/v1/app")).json.data).toMatchObject([{ id }]);
    expect((await bound.call("GET", `/api/v1/app/${full.uid}`)).status).toBe(200);
    for (const name of [other.id, "b"])
      expect((await bound.call("GET", `/api/v1/app/${name}`)).status).toBe(404);
    expect(await bound.call("POST", "/api/v1/app", { name: "C" })).toMatchObject({
      status: 403,
      json: { detail: "The key is bound to a tenant, and applications belong to the operator" },
    });
    expect(await env.DB.prepare("SELECT count(*) AS n FROM applications").first("n")).toBe(2);
  });

  it("cannot be changed or deleted with a key of its tenant, which does not reveal other uids either", async () => {
    const { id } = await create(full);
    const other = await create({ name: "B", uid: "taken" });
    const gone = await create({ name: "C" });
    await call("DELETE", `/api/v1/app/${gone.id}`);
    const bound = testApi({ create: createSvixApi, authenticate: async () => ({ tenant: id, scopes }) });
    const before = await everythingStored();
    const refusals = new Set<string>();
    for (const uid of ["free", "taken", gone.id, other.id])
      for (const name of [id, full.uid, uid])
        for (const [method, body] of [
          ["PUT", { ...full, uid }],
          ["PUT", { ...full, throttleRate: null }],
          ["PATCH", { uid }],
          ["PATCH", { rateLimit: null }],
          ["DELETE", undefined],
        ] as const) {
          const { status, text } = await bound.call(method, `/api/v1/app/${name}`, body);
          refusals.add(`${status} ${text}`);
        }
    expect([...refusals]).toEqual([expect.stringMatching(/^403 /)]);
    expect(await everythingStored()).toBe(before);
  });

  it("cannot have a uid that looks like an id, in any request", async () => {
    const [gone, kept] = [await create({ name: "A" }), await create({ name: "B", uid: "b" })];
    await call("DELETE", `/api/v1/app/${gone.id}`);
    const message = { eventType: "a.b", payload: {}, application: { name: "C" } };
    for (const [method, path, body] of [
      ["POST", "/api/v1/app", { name: "C", uid: gone.id }],
      ["PUT", `/api/v1/app/${kept.id}`, { name: "C", uid: gone.id }],
      ["PATCH", `/api/v1/app/${kept.id}`, { uid: gone.id }],
      ["POST", `/api/v1/app/${gone.id}/msg`, message],
      ["POST", `/api/v1/auth/app-portal-access/${gone.id}`, { application: { name: "C" } }],
    ] as const)
      expect([path, (await call(method, path, body)).status]).toEqual([path, 422]);
    expect((await call("PUT", `/api/v1/app/${gone.id}`, { name: "C" })).status).toBe(404);
    expect((await call("GET", `/api/v1/app/${gone.id}`)).status).toBe(404);
    // Svix's ids have another form, and an imported application is found by them.
    expect((await create({ name: "D", uid: "app_1srOrx2ZWZBpBUvZwXKQmoEYga2" })).name).toBe("D");
  });

  it("needs the scope of each operation", async () => {
    const { id } = await create(full);
    const reader = testApi({ create: createSvixApi, authenticate: async () => ({ scopes: ["read"] }) });
    expect((await reader.call("GET", `/api/v1/app/${id}`)).status).toBe(200);
    const refused = await reader.call("DELETE", `/api/v1/app/${id}`);
    expect([refused.status, refused.json.code]).toEqual([403, "permission_denied"]);
  });
});
