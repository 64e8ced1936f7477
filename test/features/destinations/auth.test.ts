/** How a destination's requests authenticate, in the API: what is taken, shown and refused. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { credentialsOf } from "../../../src/delivery/authorization.ts";
import { vaultOf } from "../../../src/secrets/vault.ts";
import type { Services } from "../../../src/services.ts";
import { findDestination } from "../../../src/store/destinations.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { operations } from "../../support/operations.ts";
import { responseFaults } from "../../support/response-check.ts";
import { keysOf, MASTER_KEYS } from "../../support/vault.ts";

const URL_ = "https://example.com/hook";
const TOKEN_URL = "https://login.example/token";
const oauth = { kind: "oauth2", token_url: TOKEN_URL, client_id: "shop", client_secret: "cl13nt-s3cr3t" };
const shownOauth = {
  kind: "oauth2",
  token_url: TOKEN_URL,
  client_id: "shop",
  scope: null,
  audience: null,
  params: {},
  client_auth: "basic",
};

beforeEach(emptyDatabase);

const { call } = testApi();
const show = operations.find(({ method, path }) => method === "GET" && path === "/v1/destinations/{id}");

async function create(fields: object): Promise<string> {
  const { status, json, text } = await call("POST", "/v1/destinations", { url: URL_, ...fields });
  expect([status, text]).toEqual([201, text]);
  return json.id;
}

const shown = async (id: string) => (await call("GET", `/v1/destinations/${id}`)).json.auth;

const more = { scope: "a b", audience: "https://x/", params: { resource: "r" }, client_auth: "body" };

describe("auth", () => {
  it.each<[object, object, string]>([
    [{ kind: "basic", username: "u", password: "p4ssw0rd" }, { kind: "basic", username: "u" }, "p4ssw0rd"],
    [{ kind: "bearer", token: "t0k3n" }, { kind: "bearer" }, "t0k3n"],
    [
      { kind: "header", header: "X-Api-Key", value: "v4lu3" },
      { kind: "header", header: "X-Api-Key" },
      "v4lu3",
    ],
    [oauth, shownOauth, "cl13nt-s3cr3t"],
    [{ ...oauth, ...more }, { ...shownOauth, ...more }, "cl13nt-s3cr3t"],
    [{ ...oauth, scope: null, audience: null, params: null, client_auth: null }, shownOauth, "cl13nt"],
  ])("of %j is shown as %j, and stored sealed", async (auth, expected, secret) => {
    const id = await create({ auth });
    const answer = await call("GET", `/v1/destinations/${id}`);
    expect(answer.json.auth).toEqual(expected);
    if (!show) throw new Error("The route is described");
    expect(responseFaults(show, answer)).toEqual([]);
    const stored = await env.DB.prepare("SELECT auth FROM destinations").first<string>("auth");
    expect(stored).toMatch(/"sealed":"auth\.test\./);
    expect(answer.text + stored).not.toContain(secret);
  });

  it("is replaced as a whole, unchanged when it is left out, and removed by null", async () => {
    const id = await create({ auth: oauth });
    const change = (fields: object) => call("PATCH", `/v1/destinations/${id}`, fields);
    expect((await change({ description: "x" })).json.auth).toEqual(shownOauth);
    expect((await change({ auth: { kind: "bearer", token: "t" } })).json.auth).toEqual({ kind: "bearer" });
    expect((await change({ auth: { kind: "basic", username: "u" } })).status).toBe(422);
    expect(await shown(id)).toEqual({ kind: "bearer" });
    expect((await change({ auth: null })).json.auth).toBeNull();
  });

  it.each([
    "not json",
    "{}",
    "[]",
    "5",
    "null",
    '{"kind":"basic"}',
  ])("that was edited in the database into %s is shown as none, and can be replaced", async (value) => {
    const id = await create({ auth: oauth });
    await env.DB.prepare("UPDATE destinations SET auth = ?1").bind(value).run();
    expect(await shown(id)).toBeNull();
    const auth = { kind: "bearer", token: "t" };
    expect((await call("PATCH", `/v1/destinations/${id}`, { auth })).json.auth).toEqual({ kind: "bearer" });
  });

  it.each([
    { auth: { kind: "basic", username: "u", password: 2071828 } },
    { auth: { kind: "bearer", token: [2071828] } },
    { headers: { "x-pin": 2071828 } },
    { secret: 2071828 },
  ])("of the wrong JSON type is refused without being repeated: %j", async (fields) => {
    const { status, text } = await call("POST", "/v1/destinations", { url: URL_, ...fields });
    expect(status).toBe(422);
    expect(text).not.toContain("2071828");
  });

  it.each<[unknown, string, string]>([
    ["Basic abc", "auth", "kind is basic, bearer, header or oauth2"],
    [{}, "auth.kind", "kind is basic, bearer, header or oauth2"],
    [{ kind: "digest" }, "auth.kind", "kind is basic, bearer, header or oauth2"],
    [{ kind: "basic", username: "a:b", password: "p" }, "auth.username", "without colons"],
    [{ kind: "basic", username: "u" }, "auth.password", "the password"],
    [{ kind: "basic", username: "u", password: "" }, "auth.password", "1 to 1024"],
    [{ kind: "basic", username: "u", password: "***" }, "auth.password", "the value itself"],
    [{ kind: "basic", username: "u", password: "a\nb" }, "auth.password", "control characters"],
    [{ kind: "bearer", token: "a b" }, "auth.token", "visible ASCII"],
    [{ kind: "bearer", token: "t", user: "u" }, "auth.user", ""],
    [{ kind: "header", header: "Webhook-Id", value: "v" }, "auth.header", "sets itself"],
    [{ kind: "header", header: "x y", value: "v" }, "auth.header", "token"],
    [{ kind: "header", header: "x-a", value: "v\r\nb: c" }, "auth.value", "printable"],
    [{ ...oauth, token_url: "http://login.example/" }, "auth.token_url", "https"],
    [{ ...oauth, token_url: "https://10.0.0.1/" }, "auth.token_url", "public internet"],
    [{ ...oauth, token_url: "https://u:p@login.example/" }, "auth.token_url", "none"],
    [{ ...oauth, token_url: 5 }, "auth.token_url", "https"],
    [{ ...oauth, scope: "a  b" }, "auth.scope", "single spaces"],
    [{ ...oauth, params: { scope: "a" } }, "auth.params.scope", "none of grant_type"],
    [{ ...oauth, params: { a: 1 } }, "auth.params.a", "strings of 1 to 1024"],
    [{ ...oauth, client_auth: "tls" }, "auth.client_auth", "basic or body"],
    [{ ...oauth, client_id: "" }, "auth.client_id", "the client's id"],
    [
      { kind: "oauth2", token_url: TOKEN_URL, client_id: "shop" },
      "auth.client_secret",
      "the client's secret",
    ],
  ])("of %j is refused, naming %s", async (auth, field, expected) => {
    const { status, json, text } = await call("POST", "/v1/destinations", { url: URL_, auth });
    expect(status).toBe(422);
    expect(json.errors).toHaveLength(1);
    expect(json.errors[0]).toMatchObject({ field, expected: expect.stringContaining(expected) });
    expect(text).not.toMatch(/cl13nt-s3cr3t|u:p@/);
  });

  it("is refused beside a header that it sets itself, whichever comes first, and both are named", async () => {
    const headers = { Authorization: "Basic abc", "x-other": "1" };
    const auth = { kind: "bearer", token: "t0k3n" };
    const both = await call("POST", "/v1/destinations", { url: URL_, headers, auth });
    expect(both.status).toBe(422);
    expect(both.json.errors).toEqual([
      {
        field: "headers.Authorization",
        fault: "is set by auth of the kind bearer too",
        expected: "one of the two",
      },
      { field: "auth", fault: "sets the header of headers.Authorization", expected: "one of the two" },
    ]);
    const withHeaders = await create({ headers });
    const later = await call("PATCH", `/v1/destinations/${withHeaders}`, { auth });
    expect([later.status, later.json.errors[0].field]).toEqual([422, "auth"]);
    const withAuth = await create({ auth: { kind: "header", header: "X-Other", value: "v" } });
    const change = (fields: object) => call("PATCH", `/v1/destinations/${withAuth}`, fields);
    expect((await change({ headers })).json.errors).toMatchObject([{ field: "headers.x-other" }]);
    expect((await change({ headers, auth })).status).toBe(422);
    expect((await change({ headers, auth: null })).status).toBe(200);
    expect((await change({ headers: null, auth })).status).toBe(200);
  });
});

describe("rotating the master key", () => {
  const newer = `k2:${btoa("2".repeat(32))}`;
  const both = vaultOf(keysOf(`${newer},${MASTER_KEYS}`));

  it("seals auth with the newer key, and names a destination whose auth no key opens", async () => {
    const fine = await create({ auth: { kind: "basic", username: "u", password: "p4ssw0rd" } });
    const lost = await create({ auth: { kind: "bearer", token: "l0st" } });
    await env.DB.prepare("UPDATE destinations SET auth = replace(auth, 'test.', 'k0.') WHERE id = ?1")
      .bind(lost)
      .run();
    const admin = testApi({ services: { vault: both } });
    const { json } = await admin.call("POST", "/v1/rotate-master-key");
    expect(json).toMatchObject({ rotated: 2, unreadable: [lost] });
    const row = await findDestination(env.DB, fine, undefined);
    const services = { vault: vaultOf(keysOf(newer)) } as unknown as Services;
    const opened = row && (await credentialsOf(services, row, { connect: (task) => task() }));
    if (!opened || "kind" in opened) throw new Error("It opens");
    expect(opened.headers()).toEqual({ authorization: `Basic ${btoa("u:p4ssw0rd")}` });
    expect((await admin.call("POST", "/v1/rotate-master-key")).json).toMatchObject({ rotated: 0 });
  });
});
