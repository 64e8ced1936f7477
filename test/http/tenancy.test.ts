/**
 * For every operation of the document: a key reads and changes only what its tenant owns, and the operation requires its
 * scope. A new route is tested as soon as it is registered.
 */

import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Principal } from "../../src/core/principal.ts";
import { scopes } from "../../src/core/scopes.ts";

import { emptyDatabase, testApi } from "../support/api.ts";
import {
  bodyFor,
  type Described,
  everythingStored,
  idNamed,
  isShared,
  operations,
  pathFor,
  pathWithQuery,
  saved,
  type Things,
  thingsOf,
} from "../support/operations.ts";
import { newGates } from "../support/world.ts";

/** Operations without a key: they must show nothing of any tenant. */
const PUBLIC = ["GET /v1/destinations/{id}/jwks.json", "GET /v1/health"];

/** Operations on the installation itself, which belongs to no tenant: a tenant's key may not. */
const OPERATORS = [
  "POST /v1/rotate-master-key",
  "GET /metrics",
  "PUT /v1/event-types/{name}",
  "DELETE /v1/event-types/{name}",
  "PUT /v1/event-types/{name}/versions/{version}",
  "PATCH /v1/event-types/{name}/versions/{version}",
  "POST /v1/event-types/{name}/check",
  "POST /v1/event-types/import",
  "PATCH /v1/tenants/{tenant}",
  "DELETE /v1/tenants/{tenant}",
  "POST /v1/tenants/{tenant}/import",
  "GET /v1/groups",
  "GET /v1/groups/{name}",
  "PUT /v1/groups/{name}",
  "DELETE /v1/groups/{name}",
  "POST /v1/groups/{name}/reset",
];

const isOperators = ({ method, path }: Described) => OPERATORS.includes(`${method} ${path}`);

const named = (all: readonly Described[]) =>
  all.map((described) => [`${described.method} ${described.path}`, described] as const);

const guarded = operations.filter(({ operation }) => operation.security.length > 0);
const withIds = guarded.filter((one) => one.path.includes("{") && !isShared(one));
const withBodies = guarded.filter(({ operation }) => operation.requestBody);
const isStream = ({ operation }: Described) =>
  "text/event-stream" in (operation.responses[200]?.content ?? {});
const lists = guarded.filter(
  (one) => one.method === "GET" && !one.path.includes("{") && !isShared(one) && !isStream(one),
);

/** An API over the real gates, for a caller; receivers answer 204. */
function apiFor(principal: Principal) {
  const fetch = async () => new Response(null, { status: 204 });
  return testApi({ authenticate: async () => principal, services: { gates: env.GATES, fetch } });
}

const { call } = apiFor({ scopes });
const acme = apiFor({ scopes, tenant: "acme" });

let own: Things;
let foreign: Things;
/** Keys that no longer exist. */
let ended: Readonly<Record<"expired" | "revoked", string>>;
/** All rows as the world began. Writing them again takes a tenth of the time that making them does. */
let beginning: string;
let restore: () => Promise<void>;
let isMade = false;
/** A request that was not refused may have changed what no row shows, such as a gate: one that reads only in an inbox. */
async function noteMade({ method, path }: Described): Promise<void> {
  if (method !== "GET" || path.includes("/poll")) isMade = true;
  // A gate allows one test in a minute, and knows of former ones.
  if (/\/(test|certification)$/.test(path)) await newGates([own.ids.destinations ?? ""]);
}
beforeEach(async () => {
  if (!isMade && beginning === (await everythingStored())) return;
  await restore();
  await newGates([own, foreign].map(({ ids }) => ids.inboxes ?? ""));
  isMade = false;
  expect(await everythingStored()).toBe(beginning);
});
beforeAll(async () => {
  await emptyDatabase();
  own = await thingsOf(call, "acme");
  foreign = await thingsOf(call, "rival");
  // A version to restore, which is not in force.
  for (const { ids } of [own, foreign])
    for (const transform of [{ template: "text" }, null])
      await call("PATCH", `/v1/destinations/${ids.destinations}`, { transform });
  const expired = (await call("POST", "/v1/keys", { scopes, expires_at: "2027-01-01T00:00:00Z" })).json;
  const revoked = (await call("POST", "/v1/keys", { scopes })).json;
  await call("DELETE", `/v1/keys/${revoked.id}`);
  ended = { expired: expired.key, revoked: revoked.key };
  beginning = await everythingStored();
  restore = await saved();
});

function showsNothingOf({ tenant, ids }: Things, text: string): void {
  for (const mark of [tenant, ...Object.values(ids)]) expect(text).not.toContain(mark);
}

test("only these operations need no key", () => {
  const open = operations.filter(({ operation }) => operation.security.length === 0);
  expect(open.map(({ method, path }) => `${method} ${path}`).sort()).toEqual(PUBLIC);
});

describe("a tenant's key can use its own resources", () => {
  test.each(named(guarded.filter((described) => !isOperators(described))))("%s", async (_name, described) => {
    await noteMade(described);
    const { status, text } = await acme.call(
      described.method,
      pathWithQuery(described.path, own),
      bodyFor(described, own),
    );
    expect(String(status), text).toMatch(/^(20\d|409)$/);
    expect(described.operation.responses).toHaveProperty(String(status));
    showsNothingOf(foreign, text);
  });
});

describe("a tenant's key cannot use the operator's operations", () => {
  test.each(named(guarded.filter(isOperators)))("%s", async (_name, described) => {
    expect(described.operation.description).toMatch(/not for keys that are bound to/i);
    const before = await everythingStored();
    const path = pathFor(described.path, own);
    const answer = await acme.call(described.method, path, bodyFor(described, own));
    expect(answer).toMatchObject({
      status: 403,
      json: {
        type: "/problems/forbidden",
        detail: expect.stringMatching(/^The key is bound to a tenant, and \w/),
      },
    });
    expect(await everythingStored()).toBe(before);
  });
});

describe("another tenant's ids are 404 to a tenant's key, and stay unchanged", () => {
  test.each(named(withIds))("%s", async (_name, described) => {
    const before = await everythingStored();
    const { status, json } = await acme.call(
      described.method,
      pathFor(described.path, foreign),
      bodyFor(described, own),
    );
    expect(json).toMatchObject({ type: "/problems/not-found" });
    expect(status).toBe(404);
    expect(await everythingStored()).toBe(before);
  });
});

describe("a tenant's key can name neither another tenant nor its objects in a body", () => {
  const telling = withBodies.filter((described) => {
    const text = JSON.stringify(described.operation.requestBody?.content["application/json"]?.example);
    return /"tenant"|_id"/.test(text);
  });
  test.each(named(telling))("%s", async (_name, described) => {
    const before = await everythingStored();
    const body = bodyFor(described, foreign);
    const { status, text } = await acme.call(described.method, pathFor(described.path, own), body);
    expect([403, 404], text).toContain(status);
    expect(await everythingStored()).toBe(before);
  });
});

describe("a tenant's key finds nothing of another tenant in a list", () => {
  test.each(named(lists))("%s", async (_name, { path, operation }) => {
    const whole = pathWithQuery(path, foreign);
    const all = await call("GET", whole);
    const marks = Object.values(foreign.ids).filter((id) => all.text.includes(id));
    expect(marks, "somebody bound to no tenant finds it").not.toEqual([]);
    showsNothingOf(foreign, (await acme.call("GET", whole)).text);
    for (const { name } of operation.parameters ?? []) {
      const value = name === "tenant" ? foreign.tenant : idNamed(name, foreign);
      if (value === undefined) continue;
      const { status, json } = await acme.call("GET", `${path}?${name}=${value}`);
      expect(status === 200 ? json.data : [], name).toEqual([]);
      expect([200, 403, 404]).toContain(status);
    }
  });
});

describe("an operation is refused to a key with every scope but its own", () => {
  test.each(named(guarded))("%s", async (_name, described) => {
    const scope = described.operation.security[0]?.bearer?.[0];
    expect(scopes, `put requires(…) into the middleware of ${described.path}`).toContain(scope);
    const without = apiFor({ scopes: scopes.filter((other) => other !== scope) });
    const before = await everythingStored();
    const args = [described.method, pathFor(described.path, own), bodyFor(described, own)] as const;
    const { status, json } = await without.call(...args);
    expect(status).toBe(403);
    expect(json.detail).toContain(scope);
    expect(await everythingStored()).toBe(before);
    await noteMade(described);
    const alone = await apiFor({ scopes: scopes.filter((one) => one === scope) }).call(...args);
    // A body may request more than the key has: then the fault is in a field, and the route is open.
    if (!alone.json?.errors) expect([401, 403, 404]).not.toContain(alone.status);
  });
});

describe("an operation is refused without a key, and with a wrong, an expired or a revoked one", () => {
  test.each(named(guarded))("%s", async (_name, described) => {
    const later = testApi({ services: { gates: env.GATES, now: () => Date.parse("2027-01-01T00:00:00Z") } });
    const before = await everythingStored();
    for (const token of [undefined, "bw_nonsense", ended.expired, ended.revoked]) {
      const authorization = token === undefined ? null : `Bearer ${token}`;
      const args = [described.method, pathFor(described.path, own), bodyFor(described, own)] as const;
      const answer = await later.call(...args, { authorization });
      expect(answer).toMatchObject({ status: 401, json: { type: "/problems/unauthorized" } });
      expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer/);
    }
    expect(await everythingStored()).toBe(before);
  });
});

describe("an operation without a key shows nothing of a tenant", () => {
  const open = operations.filter(({ operation }) => operation.security.length === 0);
  test.each(named(open))("%s", async (_name, { method, path }) => {
    const url = pathFor(path, foreign);
    const { status, text } = await call(method, url, undefined, { authorization: null });
    expect(status).toBeLessThan(500);
    showsNothingOf(own, text);
    expect(text).not.toContain(foreign.tenant);
  });
});
