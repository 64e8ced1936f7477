/** Access tokens: how one is requested, what is read of the answer, and what an isolate remembers. */
import { beforeEach, describe, expect, test } from "vitest";
import { MAX_ANSWER_BYTES } from "../../src/core/access-token.ts";
import {
  accessTokenFor,
  type ClientCredentials,
  fetchToken,
  tokenRequest,
} from "../../src/delivery/access-token.ts";
import { basic } from "../../src/secrets/base64.ts";
import { type Script, silence } from "../support/receivers.ts";
import { newSending, type Sending } from "../support/sending.ts";
import { utf8 } from "../support/utf8.ts";
import { vault } from "../support/vault.ts";

const TOKEN_URL = "https://login.example/token";
const MINUTE = 60_000;

const credentials: ClientCredentials = {
  token_url: TOKEN_URL,
  client_id: "shop",
  client_secret: "cl13nt-s3cr3t",
  scope: null,
  audience: null,
  params: {},
  client_auth: "basic",
};

let sending: Sending;
let destination: string;
let issued: number;
beforeEach(() => {
  sending = newSending();
  destination = `dst_${crypto.randomUUID()}`;
  issued = 0;
  sending.receiver.script(TOKEN_URL, issuing());
});

/** A token endpoint that answers with a new token each time, each good for an hour. */
function issuing(): Script {
  return () => {
    issued += 1;
    return Response.json({ access_token: `t0k3n-${issued}`, expires_in: 3600 });
  };
}

const asked = () => sending.receiver.to(TOKEN_URL);
const lines = () => sending.log.map(({ what }) => what);

type Wanted = Partial<Parameters<typeof accessTokenFor>[1]>;

/** The token, or the fault where there is none. */
async function got(wanted: Wanted = {}) {
  const connect = <T>(task: () => Promise<T>) => task();
  const whole = { destination, terms: "x", credentials, connect, ...wanted };
  const result = await accessTokenFor(sending.services, whole);
  return result.kind === "token" ? result : { ...result, token: result.fault, sealed: "" };
}
const tokenOf = async (wanted?: Wanted) => (await got(wanted)).token;

describe("a request for a token", () => {
  test("is a form with the grant, and the client in a header", () => {
    const { headers, body } = tokenRequest({ ...credentials, client_id: "a b:c", client_secret: "d/e+f" });
    expect(body).toBe("grant_type=client_credentials");
    expect(headers).toStrictEqual({
      accept: "application/json",
      "user-agent": expect.stringMatching(/^Breakwater\//),
      "content-type": "application/x-www-form-urlencoded",
      authorization: `Basic ${btoa("a+b%3Ac:d%2Fe%2Bf")}`,
    });
  });

  test("has the client in the form if the endpoint wants that, and further parameters that are set", () => {
    const more = { scope: "a b", audience: "https://x/", params: { resource: "r&s" } };
    const { headers, body } = tokenRequest({ ...credentials, ...more, client_auth: "body" });
    expect(Object.keys(headers)).toEqual(["accept", "user-agent", "content-type"]);
    expect([...new URLSearchParams(body)]).toEqual([
      ["grant_type", "client_credentials"],
      ["scope", "a b"],
      ["audience", "https://x/"],
      ["client_id", "shop"],
      ["client_secret", "cl13nt-s3cr3t"],
      ["resource", "r&s"],
    ]);
  });

  test("authenticates in UTF-8", () => {
    expect(basic("shöp", "p:wörd")).toBe("Basic c2jDtnA6cDp3w7ZyZA==");
  });

  test("is a POST that follows no redirect", async () => {
    expect(await fetchToken(sending.services, credentials)).toEqual({
      kind: "token",
      token: "t0k3n-1",
      lifetimeMs: 3_600_000,
    });
    const { headers, body } = tokenRequest(credentials);
    expect(asked()).toMatchObject([{ body, init: { method: "POST", redirect: "manual", headers } }]);
    expect(asked()[0]?.signal.aborted).toBe(true);
  });
});

describe("no token is obtained", () => {
  const fetched = async (fields: Partial<ClientCredentials> = {}) => {
    const result = await fetchToken(sending.services, { ...credentials, ...fields });
    return result.kind === "failed" ? [result.reason, result.fault] : [];
  };

  test("from an endpoint that must not be called", async () => {
    expect(await fetched({ token_url: "https://10.0.0.1/" })).toEqual([
      "token_unavailable",
      "must not be called: The URL points to 10.0.0.1; expected a host on the public internet.",
    ]);
    Object.assign(sending.services.config, { ownHosts: ["login.example"] });
    expect(await fetched()).toEqual(["token_unavailable", expect.stringContaining("this deployment itself")]);
    expect(sending.receiver.calls).toEqual([]);
  });

  test.each<[string, object, string]>([
    [
      "leads inside",
      { Status: 0, Answer: [{ type: 1, TTL: 1, data: "10.0.0.1" }] },
      "must not be called: it leads to 10.0.0.1",
    ],
    ["cannot be resolved", { Status: 2 }, "cannot be looked up: Error: The resolver failed with code 2"],
  ])("from an endpoint whose name %s", async (_, answer, fault) => {
    Object.assign(sending.services.config, { dnsResolver: "https://dns.example/q" });
    const host = `${crypto.randomUUID()}.example`;
    for (const type of [1, 28])
      sending.receiver.script(`https://dns.example/q?name=${host}&type=${type}`, () => Response.json(answer));
    expect(await fetched({ token_url: `https://${host}/` })).toEqual(["token_unavailable", fault]);
    expect(sending.receiver.to(`https://${host}/`)).toEqual([]);
  });

  test.each<[string, Script, string]>([
    [
      "cannot be reached",
      new Error("Network connection lost."),
      "cannot be reached: Error: Network connection lost.",
    ],
    ["answers nothing", 200, "answers 200 without a JSON object"],
    ["answers 503", 503, "answers 503"],
    ["redirects", () => Response.redirect("https://x.example/"), "redirects, which is not followed"],
  ])("from an endpoint that %s", async (_, script, fault) => {
    sending.receiver.script(TOKEN_URL, script);
    expect(await fetched()).toEqual(["token_unavailable", fault]);
  });

  test("from an endpoint that is silent for eight seconds: the request is aborted, and may fail unheard", async () => {
    sending.receiver.script(TOKEN_URL, silence().script);
    const made = fetched();
    await sending.clock.asleep(8_000);
    sending.clock.pass(7_999);
    expect(asked()[0]?.signal.aborted).toBe(false);
    sending.clock.pass(1);
    expect(await made).toEqual(["token_unavailable", "cannot be reached: Error: No answer within 8000 ms"]);
    expect(asked()[0]?.signal.aborted).toBe(true);
  });
});

describe("in an endpoint's answer", () => {
  /** An answer in pieces, and how many of them were taken. */
  function inPieces(pieces: readonly Uint8Array[]) {
    const seen = { pulled: 0, isCancelled: false };
    const stream = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          const piece = pieces[seen.pulled++];
          if (piece) controller.enqueue(piece);
          else controller.close();
        },
        cancel() {
          seen.isCancelled = true;
        },
      },
      { highWaterMark: 0 },
    );
    sending.receiver.script(TOKEN_URL, () => new Response(stream));
    return seen;
  }
  const padded = (bytes: number) => {
    const json = JSON.stringify({ access_token: "t0k3n", scope: "" });
    return utf8(json.replace('""', `"${"x".repeat(bytes - json.length)}"`));
  };

  test("chunks are joined, and split characters too", async () => {
    const bytes = utf8(JSON.stringify({ scope: "größer 世界", access_token: "t0k3n" }));
    inPieces([...bytes].map((byte) => Uint8Array.of(byte)));
    expect(await fetchToken(sending.services, credentials)).toMatchObject({ token: "t0k3n" });
  });

  test("64 KiB are read", async () => {
    const whole = padded(MAX_ANSWER_BYTES);
    inPieces([whole.subarray(0, 60_000), whole.subarray(60_000)]);
    expect(await fetchToken(sending.services, credentials)).toMatchObject({ token: "t0k3n" });
  });

  test("no more than that is read, and the rest is cancelled", async () => {
    const whole = padded(MAX_ANSWER_BYTES + 1);
    const seen = inPieces([whole.subarray(0, 60_000), whole.subarray(60_000), utf8(" ")]);
    expect(await fetchToken(sending.services, credentials)).toEqual({
      kind: "failed",
      reason: "token_unavailable",
      fault: "answers 200 with more than 65536 bytes",
    });
    expect(seen).toEqual({ pulled: 2, isCancelled: true });
  });
});

describe("an isolate", () => {
  test("requests a token from the gate once, until a minute before it expires", async () => {
    expect(await tokenOf()).toBe("t0k3n-1");
    sending.clock.pass(59 * MINUTE - 1);
    expect(await tokenOf()).toBe("t0k3n-1");
    expect([sending.gates.requests.length, asked().length]).toEqual([1, 1]);
    sending.clock.pass(1);
    expect(await tokenOf()).toBe("t0k3n-2");
    expect([sending.gates.requests.length, asked().length]).toEqual([2, 2]);
  });

  test("requests another one for other credentials, and caches it", async () => {
    expect([await tokenOf(), await tokenOf({ terms: "y" }), await tokenOf({ terms: "y" })]).toEqual([
      "t0k3n-1",
      "t0k3n-2",
      "t0k3n-2",
    ]);
    expect(asked()).toHaveLength(2);
  });

  test("queries the gate when a user views the destination", async () => {
    await got();
    expect(await tokenOf({ force: true })).toBe("t0k3n-1");
    expect(sending.gates.requests).toEqual([
      { terms: "x", force: false },
      { terms: "x", force: true },
    ]);
  });

  test("replaces a refused token once, and does not fetch a third just afterwards", async () => {
    const first = await got();
    sending.clock.pass(MINUTE);
    const second = await got({ refused: first.sealed });
    expect([first.token, second.token]).toEqual(["t0k3n-1", "t0k3n-2"]);
    expect(await tokenOf({ refused: first.sealed })).toBe("t0k3n-2");
    expect(sending.gates.requests).toHaveLength(2);
    expect(await tokenOf({ refused: second.sealed })).toBe("t0k3n-2");
    expect(asked()).toHaveLength(2);
  });

  test("caches a thousand destinations, those that got a token last", async () => {
    const all = Array.from({ length: 1_000 }, (_, i) => `${destination}-${i}`);
    for (const one of all) await got({ destination: one });
    const [first = "", second = "", third = ""] = all;
    // Requested again, the first token becomes the newest.
    await got({ destination: first, force: true });
    await got();
    const before = sending.gates.requests.length;
    for (const one of [first, third, destination]) await got({ destination: one });
    expect(sending.gates.requests.length).toBe(before);
    await got({ destination: second });
    expect(sending.gates.requests.length).toBe(before + 1);
    expect(asked()).toHaveLength(1_001);
  });

  test("fetches over a connection of the invocation", async () => {
    const order: string[] = [];
    const connect = async <T>(task: () => Promise<T>) => {
      order.push(`before ${asked().length}`);
      const result = await task();
      order.push(`after ${asked().length}`);
      return result;
    };
    await got({ connect });
    expect(order).toEqual(["before 0", "after 1"]);
  });

  test("logs fetched tokens and failures, without any secret", async () => {
    await got();
    sending.receiver.script(TOKEN_URL, 503);
    await got({ terms: "y" });
    const until = sending.clock.now() + 59 * MINUTE;
    expect(sending.log).toEqual([
      { what: "token_fetched", destination, until },
      {
        what: "token_failed",
        destination,
        reason: "token_unavailable",
        error: "The token endpoint answers 503",
      },
    ]);
  });
});

describe("a failure", () => {
  test("stops all requests until the gate permits one again", async () => {
    sending.receiver.script(TOKEN_URL, 503);
    const now = sending.clock.now();
    expect(await got()).toMatchObject({ kind: "failed", reason: "token_unavailable", until: now + 5_000 });
    sending.receiver.script(TOKEN_URL, issuing());
    sending.clock.pass(4_999);
    expect(await tokenOf()).toBe("answers 503");
    sending.clock.pass(1);
    expect(await tokenOf()).toBe("t0k3n-1");
  });

  test("to replace a refused token is remembered, and the refused one is not used", async () => {
    const first = await got();
    sending.clock.pass(MINUTE);
    sending.receiver.script(TOKEN_URL, 503);
    expect(await tokenOf({ refused: first.sealed })).toBe("answers 503");
    expect(await tokenOf()).toBe("answers 503");
    expect(asked()).toHaveLength(2);
  });

  test("keeps a newer token that another has got meanwhile", async () => {
    const first = await got();
    sending.clock.pass(MINUTE);
    sending.receiver.script(TOKEN_URL, async () => {
      const gate = sending.services.gates.get(destination as never);
      const sealed = await vault.seal(destination, "an0th3r", "token");
      await gate.keepAccessToken("x", { kind: "token", sealed, usableUntil: sending.clock.now() + MINUTE });
      return new Response(null, { status: 503 });
    });
    expect(await tokenOf({ refused: first.sealed })).toBe("an0th3r");
  });
});

describe("while the gate cannot be reached", () => {
  test("there is no token for five seconds", async () => {
    sending.gates.away(true);
    expect(await got()).toMatchObject({
      kind: "failed",
      reason: "token_unavailable",
      fault: "was not called: the destination's gate cannot be reached",
      until: sending.clock.now() + 5_000,
    });
    expect(lines()).toEqual(["gate_unreachable"]);
    expect(asked()).toEqual([]);
  });

  test("this isolate may use a token claimed before, for as long as others would", async () => {
    sending.receiver.script(TOKEN_URL, () => {
      sending.gates.away(true);
      return Response.json({ access_token: "t0k3n", expires_in: 3600 });
    });
    expect(await tokenOf()).toBe("t0k3n");
    sending.clock.pass(59 * MINUTE - 1);
    expect(await tokenOf()).toBe("t0k3n");
    expect(lines()).toEqual(["token_fetched", "gate_unreachable"]);
    sending.clock.pass(1);
    expect((await got()).kind).toBe("failed");
  });

  test("this isolate's token is forgotten when it has been refused", async () => {
    const { sealed } = await got();
    sending.gates.away(true);
    expect((await got({ refused: sealed })).kind).toBe("failed");
    expect((await got()).kind).toBe("failed");
    expect(asked()).toHaveLength(1);
  });
});

describe("a token that cannot be opened", () => {
  const usableUntil = () => sending.clock.now() + 30 * MINUTE;
  const keep = (sealed: string) =>
    sending.services.gates
      .get(destination as never)
      .keepAccessToken("x", { kind: "token", sealed, usableUntil: usableUntil() });

  test("at the gate is replaced, once it is a minute old", async () => {
    await keep("token.gone.AAAA");
    sending.clock.pass(MINUTE);
    expect(await tokenOf()).toBe("t0k3n-1");
    expect(sending.gates.requests).toEqual([
      { terms: "x", force: false },
      { terms: "x", force: false, refused: "token.gone.AAAA" },
    ]);
    expect(await tokenOf()).toBe("t0k3n-1");
    expect(asked()).toHaveLength(1);
  });

  test("and is new counts as no token for now", async () => {
    await keep("token.gone.AAAA");
    expect(await got()).toMatchObject({
      kind: "failed",
      reason: "token_unavailable",
      fault: "gave a token that cannot be opened",
      until: sending.clock.now(),
    });
    expect(asked()).toEqual([]);
  });

  test("and cannot be replaced fails with the endpoint's fault", async () => {
    await keep("token.gone.AAAA");
    sending.clock.pass(MINUTE);
    sending.receiver.script(TOKEN_URL, 503);
    expect(await tokenOf()).toBe("answers 503");
  });

  test("in this isolate is read from the gate again", async () => {
    await got();
    const { openText } = vault;
    let isGone = true;
    const failing: typeof openText = (...args) => {
      if (!isGone) return openText(...args);
      isGone = false;
      return Promise.reject(new Error("gone"));
    };
    Object.assign(sending.services, { vault: { ...vault, openText: failing } });
    expect(await tokenOf()).toBe("t0k3n-1");
    expect(sending.gates.requests).toHaveLength(2);
  });
});
