/** Destinations with OAuth 2 client credentials, and with the other kinds of authentication. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { accessTokenFor } from "../../src/delivery/access-token.ts";
import { type ShownAuth, sealedAuth } from "../../src/delivery/authorization.ts";
import { sendTestEvent } from "../../src/delivery/test-event.ts";
import { AccessTokens } from "../../src/gate/access-tokens.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import { findDestination } from "../../src/store/destinations.ts";
import { type Call, type Script, silence } from "../support/receivers.ts";
import { storage } from "../support/sending.ts";
import { vault } from "../support/vault.ts";
import {
  execute,
  gateOf,
  newDestination,
  newWorld,
  rowOf,
  START,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

const TOKEN_URL = "https://login.example/oauth2/token";
const SECRET = "cl13nt-s3cr3t";
const MINUTE = 60_000;

const oauth: Extract<ShownAuth, { kind: "oauth2" }> = {
  kind: "oauth2",
  token_url: TOKEN_URL,
  client_id: "shop",
  scope: null,
  audience: null,
  params: {},
  client_auth: "basic",
};

let world: World;
let destination: string;
let issued: number;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
  issued = 0;
  world.receiver.script(TOKEN_URL, tokens());
});

/** A token endpoint that answers with a new token each time. */
function tokens(fields: object = { expires_in: 3600 }): Script {
  return () => {
    issued += 1;
    return Response.json({ access_token: `t0k3n-${issued}`, token_type: "Bearer", ...fields });
  };
}

async function authenticate(auth: ShownAuth, secret: string, place = destination): Promise<void> {
  const stored = JSON.stringify(await sealedAuth(vault, place, auth, secret));
  await execute("UPDATE destinations SET auth = ?2 WHERE id = ?1", place, stored);
}

/** One event, and whatever delivers it. */
async function deliver() {
  const [message] = await world.post();
  if (!message) throw new Error("The event is for the destination");
  await world.consume([message]);
  await world.settled();
  return { message, row: await rowOf(message) };
}

const requests = () => world.receiver.to(TOKEN_URL);
const sent = () => world.receiver.to(urlOf(destination)).map(({ headers }) => headers.get("authorization"));
const unauthorized =
  (refused: readonly string[]): Script =>
  ({ headers }: Call) =>
    new Response(null, { status: refused.includes(headers.get("authorization") ?? "") ? 401 : 204 });

describe("a request authenticates", () => {
  test.each<[ShownAuth, string, string, string]>([
    [{ kind: "basic", username: "shöp" }, "p:wörd", "authorization", "Basic c2jDtnA6cDp3w7ZyZA=="],
    [{ kind: "bearer" }, "t0k3n", "authorization", "Bearer t0k3n"],
    [{ kind: "header", header: "X-Api-Key" }, "k1 k2", "x-api-key", "k1 k2"],
  ])("with %j", async (auth, secret, name, value) => {
    await authenticate(auth, secret);
    expect((await deliver()).row).toMatchObject({ state: "delivered" });
    const [call] = world.receiver.to(urlOf(destination));
    expect(call?.headers.get(name)).toBe(value);
    expect(world.receiver.calls).toHaveLength(1);
  });

  test.each([
    [
      "another destination's",
      async () => sealedAuth(vault, "dst_00000000000000000000", { kind: "bearer" }, "t"),
    ],
    [
      "an oauth2 whose token_url was changed by hand",
      async () => ({
        ...(await sealedAuth(vault, destination, oauth, SECRET)),
        token_url: "https://evil.example/",
      }),
    ],
    ["of another form", async () => ({ kind: "basic" })],
    ["a list", async () => []],
  ])("with nothing while its auth is %s: deliveries wait", async (_, stored) => {
    await execute(
      "UPDATE destinations SET auth = ?2 WHERE id = ?1",
      destination,
      JSON.stringify(await stored()),
    );
    expect((await deliver()).row).toMatchObject({ state: "waiting", reason: "sealed", attempts: 0 });
    expect(world.receiver.calls).toEqual([]);
  });

  test("with nothing while its auth is not JSON: deliveries wait", async () => {
    await execute("UPDATE destinations SET auth = '{' WHERE id = ?1", destination);
    expect((await deliver()).row).toMatchObject({ state: "waiting", reason: "sealed" });
    expect(world.receiver.calls).toEqual([]);
  });
});

describe("a token is fetched", () => {
  test("with the client's credentials in a header, form-encoded", async () => {
    await authenticate({ ...oauth, client_id: "a b:c" }, "d/e+f");
    await deliver();
    const [request] = requests();
    expect(request?.headers.get("authorization")).toBe(`Basic ${btoa("a+b%3Ac:d%2Fe%2Bf")}`);
    expect(request?.headers.get("content-type")).toBe("application/x-www-form-urlencoded");
    expect(request?.headers.get("user-agent")).toMatch(/^Breakwater\/\d/);
    expect(request?.body).toBe("grant_type=client_credentials");
    expect(request?.init).toMatchObject({ method: "POST", redirect: "manual" });
    expect(sent()).toEqual(["Bearer t0k3n-1"]);
  });

  test("with them in the form, and with scope, audience and parameters", async () => {
    const more = {
      scope: "a b",
      audience: "https://x/",
      params: { resource: "r&s" },
      client_auth: "body",
    } as const;
    await authenticate({ ...oauth, ...more }, SECRET);
    await deliver();
    const [request] = requests();
    expect(request?.headers.get("authorization")).toBeNull();
    expect(Object.fromEntries(new URLSearchParams(request?.body))).toEqual({
      grant_type: "client_credentials",
      client_id: "shop",
      client_secret: SECRET,
      scope: "a b",
      audience: "https://x/",
      resource: "r&s",
    });
  });

  test("once for a thousand deliveries", async () => {
    await execute("UPDATE destinations SET max_concurrency = 100, rate_per_second = 10000");
    await authenticate(oauth, SECRET);
    const messages = await world.post(1_000);
    for (let from = 0; from < 1_000; from += 100) await world.consume(messages.slice(from, from + 100));
    for (let i = 0; i < 60 && sent().length < 1_000; i++) {
      world.clock.pass(10_000);
      await world.drain(destination);
    }
    expect(sent()).toHaveLength(1_000);
    expect(requests()).toHaveLength(1);
  });

  test("once for all that need it at the same moment", async () => {
    const credentials = { ...oauth, client_secret: SECRET };
    const connect = <T>(task: () => Promise<T>) => task();
    const wanted = { destination, terms: "x", credentials, connect };
    const all = Array.from({ length: 50 }, () => accessTokenFor(world.services, wanted));
    const results = await Promise.all(all);
    expect(new Set(results.map((result) => result.kind === "token" && result.token))).toEqual(
      new Set(["t0k3n-1"]),
    );
    expect(requests()).toHaveLength(1);
  });

  test("again shortly before it expires", async () => {
    await authenticate(oauth, SECRET);
    await deliver();
    world.clock.pass(59 * MINUTE - 1);
    await deliver();
    expect(requests()).toHaveLength(1);
    world.clock.pass(1);
    await deliver();
    expect(requests()).toHaveLength(2);
    expect(sent()).toEqual(["Bearer t0k3n-1", "Bearer t0k3n-1", "Bearer t0k3n-2"]);
  });

  test("again when the credentials have changed", async () => {
    await authenticate(oauth, SECRET);
    await deliver();
    await authenticate(oauth, "an0th3r");
    await deliver();
    expect(sent()).toEqual(["Bearer t0k3n-1", "Bearer t0k3n-2"]);
  });

  test("and stored sealed, only at the gate", async () => {
    await authenticate(oauth, SECRET);
    await deliver();
    const stored = await runInDurableObject(gateOf(destination), (_, { storage }) =>
      JSON.stringify([...storage.kv.list()]),
    );
    expect(stored).toContain("token.test.");
    expect(stored).not.toContain("t0k3n");
  });

  test("not for destinations without OAuth, whose gates are not called either", async () => {
    await deliver();
    expect(requests()).toEqual([]);
    expect(world.gates.called()).not.toContain("accessToken");
  });
});

describe("after a 401 to a token that is a minute old", () => {
  beforeEach(async () => {
    await authenticate(oauth, SECRET);
    await deliver();
    world.clock.pass(MINUTE);
  });

  test("another is fetched, and the request is made once more in the same attempt", async () => {
    world.receiver.script(urlOf(destination), unauthorized(["Bearer t0k3n-1"]));
    expect((await deliver()).row).toMatchObject({ state: "delivered", attempts: 1 });
    expect(sent()).toEqual(["Bearer t0k3n-1", "Bearer t0k3n-1", "Bearer t0k3n-2"]);
    await deliver();
    expect(sent().at(-1)).toBe("Bearer t0k3n-2");
    expect(requests()).toHaveLength(2);
  });

  test("one is fetched for all attempts under way", async () => {
    world.receiver.script(urlOf(destination), unauthorized(["Bearer t0k3n-1"]));
    await world.earnTrust(destination, 30);
    expect((await storedRows()).every(({ state }) => state === "delivered")).toBe(true);
    expect(requests()).toHaveLength(2);
  });

  test("a receiver that refuses the new one too has answered 401, and gets no third request", async () => {
    world.receiver.script(urlOf(destination), 401);
    expect((await deliver()).row).toMatchObject({ state: "dead", lastStatus: 401, attempts: 1 });
    expect(requests()).toHaveLength(2);
    await deliver();
    expect(requests()).toHaveLength(2);
    expect(world.receiver.to(urlOf(destination))).toHaveLength(4);
  });

  test.each<[Script, string]>([
    [503, "token_unavailable"],
    [() => Response.json({ error: "invalid_client" }, { status: 401 }), "token_refused"],
  ])("and no other token the delivery is retried, and the circuit learns nothing bad", async (script, reason) => {
    world.receiver.script(urlOf(destination), unauthorized(["Bearer t0k3n-1"]));
    world.receiver.script(TOKEN_URL, script);
    const { row } = await deliver();
    expect(row).toMatchObject({ state: "retrying", reason, attempts: 1 });
    expect((await deliver()).row).toMatchObject({ state: "waiting", reason, attempts: 0 });
    expect((await gateOf(destination).destinationState()).circuit.kind).toBe("closed");
  });
});

test("a 401 to a token that was fetched just before stands", async () => {
  await authenticate(oauth, SECRET);
  world.receiver.script(urlOf(destination), 401);
  expect((await deliver()).row).toMatchObject({ state: "dead", lastStatus: 401 });
  expect([requests().length, sent().length]).toEqual([1, 1]);
});

describe("without a token nothing is sent, and deliveries wait: the endpoint", () => {
  beforeEach(() => authenticate(oauth, SECRET));

  const json =
    (body: unknown, status = 200): Script =>
    () =>
      Response.json(body, { status });

  test.each<[string, Script, string]>([
    ["answers 500", 500, "token_unavailable"],
    ["answers 429", 429, "token_unavailable"],
    ["redirects inside", () => Response.redirect("http://169.254.169.254/"), "token_unavailable"],
    ["cannot be reached", new Error("Network connection lost."), "token_unavailable"],
    ["answers no JSON", () => new Response("<html>"), "token_unavailable"],
    ["answers without a token", json({ token_type: "Bearer" }), "token_unavailable"],
    ["answers a huge body", () => new Response("x".repeat(100_000)), "token_unavailable"],
    ["refuses the client", json({ error: "invalid_client" }, 401), "token_refused"],
    ["refuses the scope", json({ error: "invalid_scope" }, 400), "token_refused"],
  ])("%s", async (_, script, reason) => {
    world.receiver.script(TOKEN_URL, script);
    const { message, row } = await deliver();
    expect(row).toMatchObject({ state: "waiting", reason, attempts: 0, nextAttemptAt: START + MINUTE });
    expect(world.receiver.calls.map(({ url }) => url)).toEqual([TOKEN_URL]);
    expect(world.logged("token_failed")).toMatchObject([{ destination, reason }]);
    expect(JSON.stringify(world.log)).not.toContain(SECRET);

    world.receiver.script(TOKEN_URL, tokens());
    world.clock.pass(MINUTE);
    await sweep.run(world.services);
    await world.drain(destination);
    await world.settled();
    expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 1 });
  });

  test("hangs", async () => {
    world.receiver.script(TOKEN_URL, silence().script);
    const [message] = await world.post();
    const consumed = world.consume([message]);
    await world.clock.asleep(8_000);
    world.clock.pass(8_000);
    await consumed;
    expect(await rowOf(message ?? { eventId: 0, destinationId: destination })).toMatchObject({
      state: "waiting",
      reason: "token_unavailable",
    });
    expect(requests()[0]?.signal.aborted).toBe(true);
  });

  test("never ends its answer", async () => {
    const endless = new ReadableStream({
      pull: (controller) => void controller.enqueue(new Uint8Array(1_000)),
    });
    world.receiver.script(TOKEN_URL, () => new Response(endless));
    expect((await deliver()).row).toMatchObject({ reason: "token_unavailable" });
  });

  test.each([
    ["is at a private address", "https://10.0.0.1/token"],
    ["is at a metadata service", "https://metadata.google.internal/token"],
    ["is not encrypted", "http://login.example/token"],
  ])("%s, which is not called", async (_, token_url) => {
    await authenticate({ ...oauth, token_url }, SECRET);
    expect((await deliver()).row).toMatchObject({ state: "waiting", reason: "token_unavailable" });
    expect(world.receiver.calls).toEqual([]);
  });

  test("has a name that leads to a private address, which is not called", async () => {
    Object.assign(world.services.config, { dnsResolver: "https://dns.example/q" });
    const record = (data: string) => () => Response.json({ Status: 0, Answer: [{ type: 1, TTL: 60, data }] });
    const host = new URL(urlOf(destination)).hostname;
    for (const [name, data] of [
      [host, "8.8.8.8"],
      ["inside.example", "10.0.0.1"],
    ] as const)
      for (const type of [1, 28])
        world.receiver.script(`https://dns.example/q?name=${name}&type=${type}`, record(data));
    await authenticate({ ...oauth, token_url: "https://inside.example/token" }, SECRET);
    expect((await deliver()).row).toMatchObject({ state: "waiting", reason: "token_unavailable" });
    expect(world.receiver.to("https://inside.example/token")).toEqual([]);
  });

  test("is called less and less often, however much is posted", async () => {
    world.receiver.script(TOKEN_URL, 500);
    for (let second = 0; second < 100; second++) {
      await deliver();
      world.clock.pass(1_000);
    }
    expect(requests().length).toBeLessThan(7);
  });

  test("does not delay another destination of the batch", async () => {
    world.receiver.script(TOKEN_URL, 500);
    const other = await newDestination();
    const messages = await world.post();
    expect(await world.consume(messages)).toEqual(["acked", "acked"]);
    expect(world.receiver.to(urlOf(other))).toHaveLength(1);
  });
});

describe("a test event", () => {
  test("calls the token endpoint even if that has just failed, and reports its answer", async () => {
    await authenticate(oauth, SECRET);
    world.receiver.script(TOKEN_URL, () => Response.json({ error: "invalid_client" }, { status: 401 }));
    await deliver();
    const row = await findDestination(env.DB, destination, undefined);
    if (!row) throw new Error("The destination is there");
    expect(await sendTestEvent(world.services, row)).toEqual({
      kind: "not_made",
      fault: "The token endpoint answers 401 (invalid_client).",
    });
    expect(requests()).toHaveLength(2);
    world.receiver.script(TOKEN_URL, tokens());
    const result = await sendTestEvent(world.services, row);
    expect(result).toMatchObject({ kind: "made", sent: { headers: { authorization: "***" } } });
    expect(sent()).toEqual(["Bearer t0k3n-1"]);
  });
});

describe("a gate that keeps a token", () => {
  const failed = { kind: "failed", reason: "token_unavailable", fault: "answers 500" } as const;

  /** Without the calls between, so that the order of requests is certain. */
  const newTokens = () => new AccessTokens(storage());

  test("lets all others wait for the one that fetches, and gives them its result", async () => {
    for (const outcome of [failed, { kind: "token", sealed: "s", usableUntil: START + MINUTE } as const]) {
      const tokens = newTokens();
      expect(await tokens.request({ terms: "x" })).toEqual({ kind: "claimed" });
      const waiting = [tokens.request({ terms: "x" }), tokens.request({ terms: "x", force: true })];
      tokens.keep("x", outcome);
      for (const one of waiting) expect(await one).toMatchObject(outcome);
    }
  });

  test("gives the claim to another when its holder has disappeared", async () => {
    const tokens = newTokens();
    expect(await tokens.request({ terms: "x" })).toEqual({ kind: "claimed" });
    const waiting = tokens.request({ terms: "x" });
    world.clock.pass(15_000);
    expect(await tokens.request({ terms: "x" })).toEqual({ kind: "claimed" });
    tokens.keep("x", failed);
    expect(await waiting).toMatchObject(failed);
  });

  test("does not let replaced credentials delay the new ones", async () => {
    const tokens = newTokens();
    await tokens.request({ terms: "old" });
    expect(await tokens.request({ terms: "new" })).toEqual({ kind: "claimed" });
    tokens.keep("new", { kind: "token", sealed: "s", usableUntil: START + MINUTE });
    expect(tokens.keep("old", failed)).toMatchObject(failed);
    expect(await tokens.request({ terms: "new" })).toMatchObject({ kind: "token", sealed: "s" });
  });

  test("forgets it with the destination", async () => {
    const gate = gateOf(destination);
    await gate.keepAccessToken("x", { kind: "token", sealed: "s", usableUntil: START + MINUTE });
    await gate.forget();
    expect(await gate.accessToken({ terms: "x" })).toEqual({ kind: "claimed" });
  });
});
