/** The credentials of a destination's requests: how they are sealed, opened, renewed and masked. */
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import {
  authOf,
  type Credentials,
  credentialsOf,
  headerOf,
  maskedHeaders,
  noCredentials,
  openedAuth,
  ownHeaders,
  rotatedAuth,
  rotatedHeaders,
  type ShownAuth,
  sealedAuth,
  sealedHeaders,
  withoutValues,
} from "../../src/delivery/authorization.ts";
import { vaultOf } from "../../src/secrets/vault.ts";
import { newSending, type Sending } from "../support/sending.ts";
import { keysOf, MASTER_KEYS, vault } from "../support/vault.ts";

test("the destination's headers are masked in any spelling of their names, and Breakwater's are shown", () => {
  const headers = { "webhook-id": "evt_1", "x-api-key": "k1" };
  expect(maskedHeaders(headers, { "X-Api-Key": "k1" })).toEqual({
    "webhook-id": "evt_1",
    "x-api-key": "***",
  });
  expect(maskedHeaders({ "X-API-KEY": "k1", "X-Other": "o" }, { "x-api-key": "k1" })).toEqual({
    "X-API-KEY": "***",
    "X-Other": "o",
  });
});

describe("a header value that a receiver repeats", () => {
  const secret = "s3cr3t-v4lu3";

  test.each([
    [`no: ${secret}`, "no: ***"],
    [`${secret} ${secret}!`, "*** ***!"],
    ["no: s3cr3t-v4", "no: ***"],
    ["no: s3cr", "no: ***"],
    ["no: s3c", "no: s3c"],
    ["s3cr3t is not it", "s3cr3t is not it"],
    ["", ""],
  ])("is masked: %j", (text, shown) => {
    expect(withoutValues(text, [secret, "another"])).toBe(shown);
  });

  test("is left if it is too short to distinguish from ordinary text", () => {
    expect(withoutValues("a team of a b", ["a b", "team"])).toBe("a team of a b");
  });

  test("never appears whole", () => {
    const values = fc.array(fc.string({ minLength: 8, maxLength: 12 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(values, fc.array(fc.string({ maxLength: 9 })), fc.nat(60), (secrets, between, length) => {
        const text = between.map((part, i) => part + (secrets[i % secrets.length] ?? "")).join("");
        const shown = withoutValues(text.slice(0, length), secrets);
        for (const each of secrets.filter((one) => !"***".includes(one)))
          expect(shown.includes(each)).toBe(false);
      }),
    );
  });
});

const ID = "dst_1";
const SECRET = "cl13nt-s3cr3t";
const TOKEN_URL = "https://login.example/token";
const oauth2: ShownAuth = {
  kind: "oauth2",
  token_url: TOKEN_URL,
  client_id: "shop",
  scope: "a b",
  audience: null,
  params: { resource: "r" },
  client_auth: "body",
};
const auths: readonly ShownAuth[] = [
  { kind: "basic", username: "shop" },
  { kind: "bearer" },
  { kind: "header", header: "X-Api-Key" },
  oauth2,
  { ...oauth2, client_auth: "basic", scope: null, audience: "https://x/" },
];

/** The columns of a destination. */
const columns = (fields: object = {}) =>
  ({ id: ID, headers: null, sealedHeaders: null, auth: null, ...fields }) as Parameters<
    typeof rotatedAuth
  >[1];

const newer = vaultOf(keysOf(`k2:${btoa("2".repeat(32))},${MASTER_KEYS}`));

describe("the auth of a destination", () => {
  test.each(
    auths,
  )("%j is stored with its secret sealed, and opened together with its shown part", async (auth) => {
    const stored = await sealedAuth(vault, ID, auth, SECRET);
    const { sealed, ...shown } = stored;
    expect(shown).toEqual(auth);
    expect(authOf(columns({ auth: stored }))).toEqual(auth);
    expect(await openedAuth(vault, columns({ auth: stored }))).toEqual({
      shown: auth,
      secret: SECRET,
      sealed,
    });
  });

  test("stores nothing that does not belong to its kind", async () => {
    const given = { kind: "bearer", token: SECRET } as ShownAuth;
    expect(Object.keys(await sealedAuth(vault, ID, given, SECRET))).toEqual(["kind", "sealed"]);
  });

  test("may be none", async () => {
    expect(authOf(columns())).toBeNull();
    expect(await openedAuth(vault, columns())).toBeUndefined();
    expect(await rotatedAuth(newer, columns())).toBeUndefined();
  });

  test("does not open at another destination, nor with its shown part changed", async () => {
    const stored = await sealedAuth(vault, ID, oauth2, SECRET);
    for (const moved of [
      { id: "dst_2" },
      { auth: { ...stored, token_url: "https://evil.example/" } },
      { auth: { ...stored, client_auth: "basic" } },
      { auth: { kind: "bearer", sealed: stored.sealed } },
      { auth: { ...stored, sealed: await vault.seal(ID, SECRET, "header") } },
    ])
      await expect(openedAuth(vault, columns({ auth: stored, ...moved }))).rejects.toThrow("The secret ");
  });

  test.each([
    { kind: "bearer" },
    { kind: "bearer", sealed: 7 },
    { kind: "basic", sealed: "auth.test.AAAA" },
    { kind: "nonsense", sealed: "auth.test.AAAA" },
    { sealed: "auth.test.AAAA" },
    [],
  ])("that was edited into %j is not shown, and does not open", async (auth) => {
    expect(authOf(columns({ auth }))).toBeNull();
    for (const open of [openedAuth, rotatedAuth])
      await expect(open(vault, columns({ auth }))).rejects.toThrow("The authentication is not readable");
  });

  test("is sealed again with a newer master key, once", async () => {
    const auth = await sealedAuth(vault, ID, oauth2, SECRET);
    expect(await rotatedAuth(vault, columns({ auth }))).toBeUndefined();
    const again = await rotatedAuth(newer, columns({ auth }));
    expect(again).toEqual({ ...oauth2, sealed: expect.stringMatching(/^auth\.k2\./) });
    expect(await openedAuth(newer, columns({ auth: again }))).toMatchObject({ secret: SECRET });
    expect(await rotatedAuth(newer, columns({ auth: again }))).toBeUndefined();
  });

  test.each([
    [{ kind: "header", header: "X-Api-Key" }, "x-api-key"],
    [{ kind: "bearer" }, "authorization"],
    [oauth2, "authorization"],
  ] as const)("%j makes the header %s", (auth, name) => {
    expect(headerOf(auth)).toBe(name);
  });
});

describe("a destination's own headers", () => {
  const headers = { "X-A": "a-value", "x-b": "b-value" };

  test("are sealed as headers of that destination, and opened as they were", async () => {
    const sealed = await sealedHeaders(vault, ID, headers);
    expect(Object.keys(sealed)).toEqual(["X-A", "x-b"]);
    expect(JSON.stringify(sealed)).not.toContain("-value");
    expect(await ownHeaders(vault, columns({ sealedHeaders: sealed }))).toEqual(headers);
    await expect(ownHeaders(vault, columns({ id: "dst_2", sealedHeaders: sealed }))).rejects.toThrow();
    const moved = { "x-a": await vault.seal(ID, "t0k3n", "token") };
    await expect(ownHeaders(vault, columns({ sealedHeaders: moved }))).rejects.toThrow("sealed as token");
  });

  test("are used as they are if they are stored plain, before sealed ones", async () => {
    const sealed = await sealedHeaders(vault, ID, { "x-old": "old" });
    expect(await ownHeaders(vault, columns({ headers, sealedHeaders: sealed }))).toEqual(headers);
    expect(await ownHeaders(vault, columns())).toEqual({});
  });

  test("are sealed again with a newer master key if one of them is not, or if they are plain", async () => {
    const [older, current] = [
      await sealedHeaders(vault, ID, headers),
      await sealedHeaders(newer, ID, headers),
    ];
    const again = (fields: object) => rotatedHeaders(newer, columns(fields));
    expect(await again({ sealedHeaders: current })).toBeUndefined();
    expect(await again({})).toBeUndefined();
    for (const fields of [
      { sealedHeaders: older },
      { sealedHeaders: { ...current, "X-A": older["X-A"] } },
      { headers, sealedHeaders: current },
    ]) {
      const sealed = await again(fields);
      expect(Object.values(sealed ?? {}).every((text) => text.startsWith("header.k2."))).toBe(true);
      expect(await ownHeaders(newer, columns({ sealedHeaders: sealed }))).toEqual(headers);
    }
  });
});

describe("the credentials of a request", () => {
  let sending: Sending;
  let id: string;
  let issued: number;
  beforeEach(() => {
    sending = newSending();
    id = `dst_${crypto.randomUUID()}`;
    issued = 0;
    sending.receiver.script(TOKEN_URL, () =>
      Response.json({ access_token: `t0k3n-${++issued}`, expires_in: 3600 }),
    );
  });

  const connected: number[] = [];
  async function credentialsFor(auth: ShownAuth | null, secret = SECRET, force = false) {
    const fields = {
      id,
      headers: { "X-Own": "0wn-value" },
      auth: auth && (await sealedAuth(vault, id, auth, secret)),
    };
    const connect = <T>(task: () => Promise<T>) => {
      connected.push(issued);
      return task();
    };
    return credentialsOf(sending.services, columns(fields), { connect, force });
  }

  async function opened(auth: ShownAuth | null, secret = SECRET): Promise<Credentials> {
    const credentials = await credentialsFor(auth, secret);
    if ("kind" in credentials) throw new Error(credentials.fault);
    return credentials;
  }

  test("of a destination without auth are its own headers, if any", async () => {
    const { headers, secrets, renew } = await opened(null);
    expect([headers(), secrets(), renew]).toEqual([{ "X-Own": "0wn-value" }, ["0wn-value"], undefined]);
    expect([noCredentials.headers(), noCredentials.secrets()]).toEqual([{}, []]);
  });

  test.each<[ShownAuth, string, object, readonly string[]]>([
    [
      { kind: "basic", username: "shöp" },
      "p:wörd",
      { authorization: "Basic c2jDtnA6cDp3w7ZyZA==" },
      ["Basic c2jDtnA6cDp3w7ZyZA==", "c2jDtnA6cDp3w7ZyZA==", "p:wörd"],
    ],
    [{ kind: "bearer" }, "t0k3n", { authorization: "Bearer t0k3n" }, ["Bearer t0k3n", "t0k3n", "t0k3n"]],
    [{ kind: "header", header: "X-Key" }, "a b c", { "x-key": "a b c" }, ["a b c", "b c", "a b c"]],
    [{ kind: "header", header: "X-Key" }, "abc", { "x-key": "abc" }, ["abc", "abc", "abc"]],
  ])("with %j are added to its own headers, and masked whole and without their scheme", async (auth, secret, made, hidden) => {
    const { headers, secrets, renew } = await opened(auth, secret);
    expect(headers()).toEqual({ "X-Own": "0wn-value", ...made });
    expect(secrets()).toEqual(["0wn-value", ...hidden]);
    expect(renew).toBeUndefined();
    expect(sending.receiver.calls).toEqual([]);
  });

  test("with OAuth are a token, fetched over a connection; the gate gets only the end of their seal", async () => {
    const { headers, secrets } = await opened(oauth2);
    expect(headers()).toEqual({ "X-Own": "0wn-value", authorization: "Bearer t0k3n-1" });
    expect(secrets()).toEqual(["0wn-value", "t0k3n-1", "t0k3n-1", SECRET]);
    expect(connected.splice(0)).toEqual([0]);
    expect(sending.gates.requests).toEqual([{ terms: expect.stringMatching(/^[\w-]{22}$/), force: false }]);
    const [request] = sending.receiver.calls;
    expect(new URLSearchParams(request?.body).get("client_secret")).toBe(SECRET);
  });

  test("with OAuth do not exist while there is no token, unless one is fetched on request", async () => {
    sending.receiver.script(TOKEN_URL, 503, 500);
    const auth = await sealedAuth(vault, id, oauth2, SECRET);
    const get = (force?: boolean) =>
      credentialsOf(sending.services, columns({ id, auth }), { connect: (task) => task(), force });
    expect(await get()).toMatchObject({ kind: "failed", fault: "answers 503" });
    expect(await get()).toMatchObject({ kind: "failed", fault: "answers 503" });
    expect(await get(true)).toMatchObject({ kind: "failed", fault: "answers 500" });
  });

  describe("are renewed", () => {
    const MINUTE = 60_000;

    test("by another token, without waiting for a connection, and both are masked", async () => {
      const { headers, secrets, renew } = await opened(oauth2);
      connected.splice(0);
      sending.clock.pass(MINUTE);
      expect(await renew?.(headers())).toEqual({ kind: "renewed" });
      expect(headers()).toMatchObject({ authorization: "Bearer t0k3n-2" });
      expect(secrets()).toEqual(["0wn-value", "t0k3n-1", "t0k3n-2", SECRET]);
      expect(connected).toEqual([]);
    });

    test("once for two attempts that were refused with the same token", async () => {
      const { headers, renew } = await opened(oauth2);
      const sent = headers();
      sending.clock.pass(MINUTE);
      expect(await renew?.(sent)).toEqual({ kind: "renewed" });
      expect(await renew?.(sent)).toEqual({ kind: "renewed" });
      expect(issued).toBe(2);
      // The new one is refused too, just after: the token is not the cause.
      expect(await renew?.(headers())).toEqual({ kind: "same" });
      expect(headers()).toMatchObject({ authorization: "Bearer t0k3n-2" });
    });

    test("by nothing if the endpoint gives none: the reason is the endpoint's", async () => {
      const { headers, renew } = await opened(oauth2);
      sending.clock.pass(MINUTE);
      sending.receiver.script(TOKEN_URL, 401);
      expect(await renew?.(headers())).toEqual({ kind: "failed", reason: "token_refused" });
      expect(headers()).toMatchObject({ authorization: "Bearer t0k3n-1" });
    });
  });
});
