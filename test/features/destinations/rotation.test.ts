/** Rotating secrets, publishing public keys, and rotating the master key. */
import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ownHeaders } from "../../../src/delivery/authorization.ts";
import { signerFor } from "../../../src/delivery/signature.ts";
import { newSecret } from "../../../src/secrets/signing.ts";
import { vaultOf } from "../../../src/secrets/vault.ts";
import { findDestination } from "../../../src/store/destinations.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { utf8 } from "../../support/utf8.ts";
import { keysOf, MASTER_KEYS, vault } from "../../support/vault.ts";

const URL_ = "https://example.com/hook";
const DAY_MS = 86_400_000;

beforeEach(emptyDatabase);
afterEach(() => {
  vi.useRealTimers();
});

const { call } = testApi();

async function create(fields: object = {}): Promise<{ id: string; secret: string; public_key: string }> {
  const { status, json } = await call("POST", "/v1/destinations", { url: URL_, ...fields });
  expect(status).toBe(201);
  return json;
}

const rotate = (id: string, body: unknown = {}) => call("POST", `/v1/destinations/${id}/rotate-secret`, body);

/** The secrets that would sign a delivery at that moment. */
async function headersAt(id: string, at: number): Promise<Record<string, string>> {
  const row = await findDestination(env.DB, id, undefined);
  if (!row) throw new Error("The destination is there");
  return (await signerFor(vault, row, at))({ id: "evt_1", type: "order.created", body: utf8("{}") }, at);
}

/** Verified at the time of the signature, because the library checks that too. */
function accepts(secret: string, headers: Record<string, string>): boolean {
  vi.setSystemTime(Number(headers["webhook-timestamp"]) * 1000);
  try {
    new Webhook(secret).verify("{}", headers);
    return true;
  } catch {
    return false;
  }
}

describe("POST /v1/destinations/:id/rotate-secret", () => {
  it("makes a new secret, shows it only then, and lets the old one sign for a day", async () => {
    const { id, secret } = await create();
    const { status, json } = await rotate(id);
    expect(status).toBe(200);
    expect(json.secret).toMatch(/^whsec_/);
    expect(json.secret).not.toBe(secret);
    expect(json).toMatchObject({
      id,
      previous_secrets: [{ expires_at: new Date(NOW + DAY_MS).toISOString() }],
    });
    const row = await findDestination(env.DB, id, undefined);
    const [previous] = row?.previousSecrets ?? [];
    expect(previous?.expires_at).toBe(NOW + DAY_MS);
    expect(JSON.stringify(row)).not.toContain(secret.slice(6));
    expect(await vault.unseal(id, previous?.secret ?? "")).toBe(secret);
    expect(await vault.unseal(id, row?.secret ?? "")).toBe(json.secret);
    expect((await call("GET", `/v1/destinations/${id}`)).text).not.toContain("whsec_");
  });

  it.each([
    [1, 1],
    [3_600, 3_600],
    [604_800, 604_800],
    [null, 86_400],
  ])("lets the old one sign for %j seconds", async (overlap_s, seconds) => {
    const { id } = await create();
    const { json } = await rotate(id, { overlap_s });
    expect(Date.parse(json.previous_secrets[0].expires_at)).toBe(NOW + seconds * 1000);
  });

  it("ends the old one at once when no overlap is wanted", async () => {
    const { id, secret } = await create();
    const { json } = await rotate(id, { overlap_s: 0 });
    expect(json.previous_secrets).toEqual([]);
    const headers = await headersAt(id, NOW);
    expect([accepts(secret, headers), accepts(json.secret, headers)]).toEqual([false, true]);
  });

  it("signs with both until the old one expires, and then with the new one", async () => {
    const { id, secret } = await create();
    const { json } = await rotate(id, { overlap_s: 60 });
    const during = await headersAt(id, NOW + 59_999);
    expect([accepts(secret, during), accepts(json.secret, during)]).toEqual([true, true]);
    const after = await headersAt(id, NOW + 60_000);
    expect(after["webhook-signature"]).toMatch(/^v1,\S+$/);
    expect([accepts(secret, after), accepts(json.secret, after)]).toEqual([false, true]);
  });

  it("accepts the caller's own secret, and a repeated request changes nothing", async () => {
    const { id, secret } = await create();
    const own = newSecret("hmac-sha256");
    const first = await rotate(id, { secret: own });
    const again = await rotate(id, { secret: own, overlap_s: 0 });
    expect(first.json.secret).toBe(own);
    expect(again.json).toEqual(first.json);
    const headers = await headersAt(id, NOW);
    expect([accepts(secret, headers), accepts(own, headers)]).toEqual([true, true]);
  });

  it("lets every secret sign until its own overlap ends, however often it is rotated meanwhile", async () => {
    const { id, secret } = await create();
    const second = (await rotate(id, { overlap_s: 7_200 })).json.secret;
    const { json } = await rotate(id, { overlap_s: 3_600 });
    const secrets = [secret, second, json.secret];
    const signing = async (at: number) => {
      const headers = await headersAt(id, at);
      return secrets.map((each) => accepts(each, headers));
    };
    expect(await signing(NOW)).toEqual([true, true, true]);
    expect(await signing(NOW + 3_599_999)).toEqual([true, true, true]);
    expect(await signing(NOW + 3_600_000)).toEqual([true, false, true]);
    expect(await signing(NOW + 7_200_000)).toEqual([false, false, true]);
    expect(json.previous_secrets).toEqual([
      { expires_at: new Date(NOW + 3_600_000).toISOString() },
      { expires_at: new Date(NOW + 7_200_000).toISOString() },
    ]);
  });

  it("leaves only the new secret when no overlap is wanted, however many were signing", async () => {
    const { id } = await create();
    for (let i = 0; i < 3; i++) await rotate(id);
    const { json } = await rotate(id, { overlap_s: 0 });
    expect(json.previous_secrets).toEqual([]);
    expect((await headersAt(id, NOW))["webhook-signature"]).toMatch(/^v1,\S+$/);
  });

  it("refuses a further rotation while five previous secrets still sign, and says when the next is possible", async () => {
    const { id, secret } = await create();
    for (const overlap_s of [500, 400, 300, 900, 600]) await rotate(id, { overlap_s });
    const before = await findDestination(env.DB, id, undefined);
    const { status, json, headers, text } = await rotate(id);
    expect([status, headers.get("retry-after")]).toEqual([409, "300"]);
    expect(json.detail).toBe(
      "5 previous secrets still sign: rotate again at 2026-11-21T09:05:00.000Z, or now with overlap_s 0, which ends them",
    );
    expect(text).not.toContain("whsec_");
    expect(await findDestination(env.DB, id, undefined)).toEqual(before);
    expect(accepts(secret, await headersAt(id, NOW))).toBe(true);
    const later = testApi({ services: { now: () => NOW + 300_000 } });
    expect((await later.call("POST", `/v1/destinations/${id}/rotate-secret`, {})).status).toBe(200);
    expect((await rotate(id, { overlap_s: 0 })).status).toBe(200);
  });

  it("signs once with a previous secret that becomes the current one again", async () => {
    const { id } = await create();
    const [a, b] = [newSecret("hmac-sha256"), newSecret("hmac-sha256")];
    await rotate(id, { secret: a, overlap_s: 60 });
    await rotate(id, { secret: b });
    const { json } = await rotate(id, { secret: a });
    expect(json.previous_secrets).toHaveLength(2);
    const headers = await headersAt(id, NOW);
    expect(headers["webhook-signature"]?.split(" ")).toHaveLength(3);
    expect([a, b].map((each) => accepts(each, headers))).toEqual([true, true]);
  });

  it("rotates once when a request that names the version to replace is repeated", async () => {
    const { id } = await create();
    const first = await rotate(id, { secret_version: 1 });
    expect(first).toMatchObject({ status: 200, json: { secret_version: 2 } });
    const again = await rotate(id, { secret_version: 1 });
    expect(again.status).toBe(409);
    expect(again.json.errors).toEqual([
      { field: "secret_version", fault: "is 1", expected: "the current 2" },
    ]);
    expect(accepts(first.json.secret, await headersAt(id, NOW))).toBe(true);
    expect((await call("GET", `/v1/destinations/${id}`)).json.secret_version).toBe(2);
  });

  it.each([
    ["nonsense"],
    ["{}"],
    ["[1,null,{}]"],
    ['[{"secret":7,"expires_at":"never"}]'],
  ])("signs with the current secret only when the older ones were edited into %s", async (edited) => {
    const { id, secret } = await create();
    await env.DB.prepare("UPDATE destinations SET previous_secrets = ?1").bind(edited).run();
    const headers = await headersAt(id, NOW);
    expect([headers["webhook-signature"]?.includes(" "), accepts(secret, headers)]).toEqual([false, true]);
    expect((await call("GET", `/v1/destinations/${id}`)).json.previous_secrets).toEqual([]);
  });

  it("changes to ed25519, with both kinds of signature during the overlap, and keeps it", async () => {
    const { id, secret } = await create();
    const { json, text } = await rotate(id, { signature: "ed25519" });
    expect(json).toMatchObject({ signature: "ed25519", public_key: expect.stringMatching(/^whpk_/) });
    expect(text).not.toMatch(/whsk_|whsec_/);
    const headers = await headersAt(id, NOW);
    expect(headers["webhook-signature"]).toMatch(/^v1a,\S+ v1,\S+$/);
    expect(accepts(secret, headers)).toBe(true);
    expect((await rotate(id)).json.signature).toBe("ed25519");
  });

  it("replaces a secret that cannot be opened", async () => {
    const { id } = await create();
    await env.DB.prepare("UPDATE destinations SET secret = 'nonsense'").run();
    const { status, json } = await rotate(id, { overlap_s: 0 });
    expect(status).toBe(200);
    expect(accepts(json.secret, await headersAt(id, NOW))).toBe(true);
  });

  it("lets one of two simultaneous rotations succeed, and refuses the other", async () => {
    const { id, secret } = await create();
    const answers = await Promise.all([rotate(id), rotate(id), rotate(id)]);
    const [winner, ...others] = answers.toSorted((a, b) => a.status - b.status);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    expect(others.every(({ text }) => !text.includes("whsec_"))).toBe(true);
    const headers = await headersAt(id, NOW);
    expect([accepts(secret, headers), accepts(winner?.json.secret, headers)]).toEqual([true, true]);
  });

  it.each([
    [{ overlap_s: -1 }, "overlap_s"],
    [{ overlap_s: 604_801 }, "overlap_s"],
    [{ overlap_s: 1.5 }, "overlap_s"],
    [{ overlap_s: "60" }, "overlap_s"],
    [{ secret: "whsec_abc" }, "secret"],
    [{ secret: newSecret("ed25519"), signature: "hmac-sha256" }, "secret"],
    [{ signature: "rsa" }, "signature"],
    [{ until: 7 }, "until"],
  ])("refuses %j and changes nothing", async (body, field) => {
    const { id, secret } = await create();
    const { status, json, text } = await rotate(id, body);
    expect([status, json.errors[0].field]).toEqual([422, field]);
    expect(text).not.toMatch(/whsec_abc|whsk_[A-Za-z0-9]/);
    expect(accepts(secret, await headersAt(id, NOW))).toBe(true);
  });

  it.each([
    ["no body and no type", undefined, {}],
    ["no body as JSON", "", {}],
    ["no body as a form", "", { "content-type": "application/x-www-form-urlencoded" }],
  ])("accepts %s as an empty object", async (_what, body, headers) => {
    const { id } = await create();
    const path = `/v1/destinations/${id}/rotate-secret`;
    const { status, json } = await call("POST", path, body, headers);
    expect([status, json.secret_version]).toEqual([200, 2]);
  });

  it.each([
    ["overlap_s=60", { "content-type": "application/x-www-form-urlencoded" }, 415],
    ['{"overlap_s":', {}, 400],
    ["[]", {}, 400],
  ])("refuses %s: a body that is present must be JSON", async (body, headers, status) => {
    const { id } = await create();
    const answer = await call("POST", `/v1/destinations/${id}/rotate-secret`, body, headers);
    expect(answer.status).toBe(status);
    expect((await call("GET", `/v1/destinations/${id}`)).json.secret_version).toBe(1);
  });

  it("finds no destination of another tenant, and lets only an admin rotate", async () => {
    const { id } = await create({ tenant: "acme" });
    const other = testApi({ authenticate: async () => ({ scopes: ["admin"], tenant: "beta" }) });
    expect((await other.call("POST", `/v1/destinations/${id}/rotate-secret`, {})).status).toBe(404);
    const reader = testApi({ authenticate: async () => ({ scopes: ["read", "events:write"] }) });
    expect((await reader.call("POST", `/v1/destinations/${id}/rotate-secret`, {})).status).toBe(403);
    expect((await rotate("dst_00000000000000000000")).status).toBe(404);
  });
});

describe("GET /v1/destinations/:id/jwks.json", () => {
  const keysOfDestination = (id: string, at = NOW) =>
    testApi({ services: { now: () => at } }).call("GET", `/v1/destinations/${id}/jwks.json`, undefined, {
      authorization: null,
    });

  it("publishes the verifying key without authentication, and lets caches keep it for a while", async () => {
    const { id, public_key } = await create({ signature: "ed25519" });
    const { status, headers, json } = await keysOfDestination(id);
    expect(status).toBe(200);
    expect(headers.get("cache-control")).toBe("public, max-age=300");
    const [{ whpk, ...jwk }] = json.keys;
    expect(json.keys).toHaveLength(1);
    expect(whpk).toBe(public_key);
    expect(jwk).toMatchObject({ kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig" });
    expect(Object.keys(jwk).sort()).toEqual(["alg", "crv", "kid", "kty", "use", "x"]);

    const signed = await headersAt(id, NOW);
    const key = await crypto.subtle.importKey("jwk", jwk, "Ed25519", false, ["verify"]);
    const signature = Uint8Array.from(atob(signed["webhook-signature"]?.slice(4) ?? ""), (c) =>
      c.charCodeAt(0),
    );
    const verify = (body: string) =>
      crypto.subtle.verify(
        "Ed25519",
        key,
        signature,
        new TextEncoder().encode(`evt_1.${signed["webhook-timestamp"]}.${body}`),
      );
    expect([await verify("{}"), await verify("{} ")]).toEqual([true, false]);
  });

  it("names a key by the thumbprint of RFC 8037's example", async () => {
    const seed = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A".replaceAll("_", "/").replaceAll("-", "+");
    const { id } = await create({ secret: `whsk_${seed}=` });
    expect((await keysOfDestination(id)).json.keys[0]).toMatchObject({
      kid: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
      x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    });
  });

  it("publishes both keys during a rotation, the current one first", async () => {
    const { id, public_key } = await create({ signature: "ed25519" });
    const { json } = await rotate(id, { overlap_s: 60 });
    const published = async (at: number) =>
      (await keysOfDestination(id, at)).json.keys.map(({ whpk }: { whpk: string }) => whpk);
    expect(await published(NOW + 59_999)).toEqual([json.public_key, public_key]);
    expect(await published(NOW + 60_000)).toEqual([json.public_key]);
  });

  it("publishes nothing of a shared secret, and answers 404 for an unknown destination", async () => {
    const { id } = await create();
    expect((await keysOfDestination(id)).json).toEqual({ keys: [] });
    await call("DELETE", `/v1/destinations/${id}`);
    expect((await keysOfDestination(id)).status).toBe(404);
    expect((await keysOfDestination("nonsense")).status).toBe(404);
  });

  it("answers 503 when the secret cannot be opened, and reveals nothing else", async () => {
    const { id } = await create({ signature: "ed25519" });
    await env.DB.prepare("UPDATE destinations SET secret = 'ed25519.gone.AAAA'").run();
    const { status, text } = await keysOfDestination(id);
    expect(status).toBe(503);
    expect(text).not.toContain("gone");
  });
});

describe("POST /v1/rotate-master-key", () => {
  const newer = `k2:${btoa("2".repeat(32))}`;
  const both = vaultOf(keysOf(`${newer},${MASTER_KEYS}`));
  const newest = vaultOf(keysOf(newer));

  /** Steps until the end, as the command does. */
  async function rotateAll(at = NOW) {
    const admin = testApi({ services: { vault: both, now: () => at } });
    const steps = [];
    for (let query = "", more = true; more && steps.length < 10; ) {
      const { status, json } = await admin.call("POST", `/v1/rotate-master-key${query}`);
      expect(status).toBe(200);
      steps.push(json);
      more = json.next_cursor !== null;
      query = `?cursor=${json.next_cursor}`;
    }
    return steps;
  }

  async function fill(count: number): Promise<void> {
    const rows = await Promise.all(
      Array.from({ length: count }, async (_, n) => {
        const id = `dst_${String(n).padStart(20, "0")}`;
        return { id, secret: await vault.seal(id, newSecret("hmac-sha256")) };
      }),
    );
    const insert = env.DB.prepare(
      "INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at) VALUES (?1, 't', ?2, ?3, 0, 0)",
    );
    await env.DB.batch(rows.map(({ id, secret }) => insert.bind(id, URL_, secret)));
  }

  it("seals the older key's secrets with the newer key, which opens all of them afterwards", async () => {
    const { id, secret } = await create();
    const { json } = await rotate(id);
    expect(await rotateAll()).toEqual([{ rotated: 1, unreadable: [], next_cursor: null }]);
    const row = await findDestination(env.DB, id, undefined);
    expect(await newest.unseal(id, row?.secret ?? "")).toBe(json.secret);
    const [previous] = row?.previousSecrets ?? [];
    expect(await newest.unseal(id, previous?.secret ?? "")).toBe(secret);
    expect(previous?.expires_at).toBe(NOW + DAY_MS);
    expect(row?.updatedAt).toBe(NOW);
  });

  it("works in steps of a hundred, deleted destinations included, and has nothing to do the second time", async () => {
    await fill(250);
    await call("DELETE", `/v1/destinations/dst_${"0".repeat(20)}`);
    const count = async () => (await rotateAll()).map(({ rotated }) => rotated);
    expect(await count()).toEqual([100, 100, 50]);
    const { results } = await env.DB.prepare("SELECT id, secret FROM destinations").all<{
      id: string;
      secret: string;
    }>();
    for (const { id, secret } of results) expect(await newest.unseal(id, secret)).toMatch(/^whsec_/);
    expect(await count()).toEqual([0, 0, 0]);
  });

  it("drops an expired secret", async () => {
    const { id } = await create();
    await rotate(id, { overlap_s: 60 });
    await rotate(id);
    await rotateAll(NOW + 60_000);
    const row = await findDestination(env.DB, id, undefined);
    expect(row?.previousSecrets).toEqual([{ secret: expect.any(String), expires_at: NOW + DAY_MS }]);
  });

  it("names the secrets that no key opens, leaves them as they are, and continues", async () => {
    const [lost, fine] = [await create(), await create()];
    await env.DB.prepare("UPDATE destinations SET secret = 'hmac-sha256.k0.AAAA' WHERE id = ?1")
      .bind(lost.id)
      .run();
    expect(await rotateAll()).toEqual([{ rotated: 1, unreadable: [lost.id], next_cursor: null }]);
    const row = await findDestination(env.DB, fine.id, undefined);
    expect(await newest.unseal(fine.id, row?.secret ?? "")).toBe(fine.secret);
    expect((await findDestination(env.DB, lost.id, undefined))?.secret).toBe("hmac-sha256.k0.AAAA");
  });

  it("seals headers with the newer key too, and those that are stored plain", async () => {
    const [sealed, plain] = [
      await create({ headers: { "x-api-key": "s3al3d" } }),
      await create({ headers: { "x-api-key": "old3r" } }),
    ];
    await env.DB.prepare("UPDATE destinations SET headers = ?2 WHERE id = ?1")
      .bind(plain.id, '{ "X-Api-Key" : "pl\\u0061in" }')
      .run();
    expect(await rotateAll()).toEqual([{ rotated: 2, unreadable: [], next_cursor: null }]);
    const own = async (id: string) => {
      const row = await findDestination(env.DB, id, undefined);
      expect(row?.headers).toBeNull();
      return row && ownHeaders(newest, row);
    };
    expect(await own(sealed.id)).toEqual({ "x-api-key": "s3al3d" });
    expect(await own(plain.id)).toEqual({ "X-Api-Key": "plain" });
    expect(await rotateAll()).toEqual([{ rotated: 0, unreadable: [], next_cursor: null }]);
  });

  it("names a destination whose headers no key opens, and still encrypts its secret", async () => {
    const { id, secret } = await create({ headers: { "x-api-key": "l0st" } });
    const lost = '{"x-api-key":"header.k0.AAAA"}';
    await env.DB.prepare("UPDATE destinations SET sealed_headers = ?1").bind(lost).run();
    expect(await rotateAll()).toEqual([{ rotated: 1, unreadable: [id], next_cursor: null }]);
    const row = await findDestination(env.DB, id, undefined);
    expect(await newest.unseal(id, row?.secret ?? "")).toBe(secret);
    expect(row?.sealedHeaders).toEqual(JSON.parse(lost));
  });

  it("leaves headers alone that are changed at the same time", async () => {
    const { id } = await create({ headers: { "x-api-key": "b3for3" } });
    let isChanged = false;
    const sealAgain = async (place: string, sealed: string) => {
      if (!isChanged) await call("PATCH", `/v1/destinations/${id}`, { headers: { "x-api-key": "aft3r" } });
      isChanged = true;
      return both.sealAgain(place, sealed);
    };
    await testApi({ services: { vault: { ...both, sealAgain } } }).call("POST", "/v1/rotate-master-key");
    const row = await findDestination(env.DB, id, undefined);
    expect(row && (await ownHeaders(both, row))).toEqual({ "x-api-key": "aft3r" });
  });

  it("leaves a secret alone that is rotated at the same time", async () => {
    const { id } = await create();
    let rotated: string | undefined;
    const sealAgain = async (place: string, sealed: string) => {
      rotated ??= (await rotate(id)).json.secret;
      return both.sealAgain(place, sealed);
    };
    const slow = testApi({ services: { vault: { ...both, sealAgain } } });
    await slow.call("POST", "/v1/rotate-master-key");
    const row = await findDestination(env.DB, id, undefined);
    expect(await vault.unseal(id, row?.secret ?? "")).toBe(rotated);
  });

  it("is refused to keys of one tenant, and to other scopes", async () => {
    for (const principal of [
      { scopes: ["admin"], tenant: "acme" },
      { scopes: ["read", "events:write"] },
    ] as const) {
      const other = testApi({ authenticate: async () => principal });
      expect((await other.call("POST", "/v1/rotate-master-key")).status).toBe(403);
    }
    expect((await call("POST", "/v1/rotate-master-key?cursor=x")).status).toBe(422);
  });
});
