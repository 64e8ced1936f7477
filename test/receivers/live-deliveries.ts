/**
 * The requirements on every receiver of docs/receivers, tested with requests that Breakwater's own code has signed and
 * sent.
 */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { noCredentials } from "../../src/delivery/authorization.ts";
import { call, requestHeadersOf } from "../../src/delivery/http.ts";
import { signerFor } from "../../src/delivery/signature.ts";
import { newSecret, type Scheme } from "../../src/secrets/signing.ts";
import { until } from "../scenario/until.ts";
import { testConfig } from "../support/config.ts";
import { localServer } from "../support/local-server.ts";
import { skipped } from "../support/skipped.ts";
import { utf8 } from "../support/utf8.ts";
import { vault } from "../support/vault.ts";
import type { Language, RunningReceiver, Settings } from "./languages.ts";

const DESTINATION = "dst_00000000000000000000";
/** Not as a JSON library would write it: what is verified must be the bytes as they were sent. */
const BODY = '{ "type":"order.created",  "data": {"total":10.0, "note":"Gr\\u00fc\u00dfe \u{1f44b}"} }';

type Sent = Readonly<{ id: string; body: string; headers: Record<string, string> }>;
type Signing = Readonly<{ secret: string; previous?: readonly string[]; at?: number; body?: string }>;

let count = 0;

/** An event as an attempt would send it. */
async function signed({ secret, previous = [], at = Date.now(), body = BODY }: Signing): Promise<Sent> {
  const seal = (each: string) => vault.seal(DESTINATION, each);
  const replaced = previous.map(async (each) => ({ secret: await seal(each), expires_at: at + 60_000 }));
  const stored = { id: DESTINATION, secret: await seal(secret), signatureForms: null };
  const signer = await signerFor(vault, { ...stored, previousSecrets: await Promise.all(replaced) }, at);
  const payload = { body: utf8(body), contentType: "application/json" };
  const message = { id: `evt_${++count}`, type: "order.created", ...payload, attempt: 1 };
  return {
    id: message.id,
    body,
    headers: await requestHeadersOf(
      { config: testConfig() },
      message,
      { signer, credentials: noCredentials },
      at,
    ),
  };
}

/** Sends it as an attempt would; the status of the answer. */
async function send(url: string, { headers, body }: Sent): Promise<number | undefined> {
  const services = { now: Date.now } as unknown as Parameters<typeof call>[0];
  const order = {
    post: (outgoing: RequestInit) => fetch(url, { ...outgoing, method: "POST" }),
    type: "order.created",
    headers: async () => headers,
    credentials: noCredentials,
    body: utf8(body),
    timeoutMs: 10_000,
  };
  const { exchange, fault } = await call(services, order);
  expect(fault).toBeUndefined();
  return exchange.status;
}

type Forgery = readonly [what: string, make: (sent: Sent) => Sent];

const withHeader = (sent: Sent, name: string, value: string) => ({
  ...sent,
  headers: { ...sent.headers, [name]: value },
});

const forgeries: readonly Forgery[] = [
  ["of another body", (sent) => ({ ...sent, body: sent.body.replace("10.0", "99.0") })],
  ["with a space more", (sent) => ({ ...sent, body: `${sent.body} ` })],
  ["under another id", (sent) => withHeader(sent, "webhook-id", "evt_other")],
  [
    "with another timestamp",
    (sent) => withHeader(sent, "webhook-timestamp", String(Number(sent.headers["webhook-timestamp"]) - 1)),
  ],
  ["with a timestamp that is no number", (sent) => withHeader(sent, "webhook-timestamp", "now")],
  ["with a timestamp beyond all numbers", (sent) => withHeader(sent, "webhook-timestamp", "9".repeat(30))],
  ["with an empty signature", (sent) => withHeader(sent, "webhook-signature", "v1,")],
  ["with half a signature", (sent) => withHeader(sent, "webhook-signature", halved(sent))],
  ["with a signature that is no base64", (sent) => withHeader(sent, "webhook-signature", "v1,%%% v1a,%%%")],
  ["with a signature without a version", (sent) => withHeader(sent, "webhook-signature", bare(sent))],
  ["with a signature of another version", (sent) => withHeader(sent, "webhook-signature", renamed(sent))],
  ["with no signature", (sent) => withHeader(sent, "webhook-signature", " ")],
];

const signatureIn = ({ headers }: Sent) => headers["webhook-signature"] ?? "";
const bare = (sent: Sent) => signatureIn(sent).replace(/^v1a?,/, "");
const halved = (sent: Sent) => signatureIn(sent).slice(0, 28);
const renamed = (sent: Sent) =>
  signatureIn(sent).replace(/^(v1a?),/, (_, version) => `${version === "v1" ? "v1a" : "v1"},`);

/** The public keys of secrets, served as a deployment serves a destination's. */
async function serveKeys() {
  let document: string | undefined;
  const server: Server = localServer((_, response) => {
    response.writeHead(document === undefined ? 503 : 200, { "content-type": "application/json" });
    response.end(document);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1/destinations/${DESTINATION}/jwks.json`,
    publish: async (...secrets: string[]) => {
      document = JSON.stringify({ keys: await Promise.all(secrets.map(jwkOf)) });
    },
    close: () => server.close(),
  };
}

async function jwkOf(secret: string) {
  const { publicKey = [] } = await vault.open(DESTINATION, await vault.seal(DESTINATION, secret));
  const bytes = Buffer.from(publicKey);
  const whpk = `whpk_${bytes.toString("base64")}`;
  const x = bytes.toString("base64url");
  return { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid: "k", x, whpk };
}

type Receiving = Readonly<{ receiver: () => RunningReceiver; secret: string; scheme: Scheme }>;

function describeVerification({ receiver, secret, scheme }: Receiving): void {
  const deliver = (sent: Sent) => send(receiver().url, sent);
  /** Waits until the event has been handled once, and as many repeats of it have been recognised. */
  const handledOnce = (id: string, repeats = 0) => {
    const printed = (what: string) => {
      const found = receiver().lines.filter((line) => new RegExp(`^${what} ${id}\\b`).test(line));
      return found.length;
    };
    const isSo = () => printed("handled") === 1 && printed("duplicate") === repeats;
    const otherwise = () => `${id} has not been handled once:\n${receiver().lines.join("\n")}`;
    return until(isSo, { everyMs: 5, otherwise });
  };

  test("accepts a delivery, byte for byte as it was sent", async () => {
    const sent = await signed({ secret });
    expect(await deliver(sent)).toBe(204);
    await handledOnce(sent.id);
  });

  test("accepts a large body", async () => {
    const body = JSON.stringify({ type: "order.created", data: "ü".repeat(120_000) });
    expect(await deliver(await signed({ secret, body }))).toBe(204);
  });

  test("acknowledges a delivery that comes again, at the same moment too, and handles it once", async () => {
    const sent = await signed({ secret });
    expect(await Promise.all(Array.from({ length: 5 }, () => deliver(sent)))).toEqual(Array(5).fill(204));
    expect(await deliver(sent)).toBe(204);
    await handledOnce(sent.id, 5);
  });

  test("accepts a delivery during a rotation, whichever of the secrets it knows", async () => {
    const others = [newSecret(scheme), newSecret(scheme)];
    expect(await deliver(await signed({ secret, previous: others }))).toBe(204);
    expect(await deliver(await signed({ secret: newSecret(scheme), previous: [secret, ...others] }))).toBe(
      204,
    );
  });

  // Far enough from the five minutes that a receiver may be slow to verify.
  test("accepts a delivery that was signed two minutes ago, or by a clock that is ahead", async () => {
    expect(await deliver(await signed({ secret, at: Date.now() - 120_000 }))).toBe(204);
    expect(await deliver(await signed({ secret, at: Date.now() + 240_000 }))).toBe(204);
  });

  test("refuses a delivery that was signed more than five minutes ago, or ahead", async () => {
    expect(await deliver(await signed({ secret, at: Date.now() - 310_000 }))).toBe(401);
    expect(await deliver(await signed({ secret, at: Date.now() + 480_000 }))).toBe(401);
  });

  test("refuses what another secret has signed, of the same scheme and of the other", async () => {
    for (const another of ["hmac-sha256", "ed25519"] as const)
      expect(await deliver(await signed({ secret: newSecret(another) }))).toBe(401);
  });

  test.each(forgeries)("refuses a delivery %s", async (_, forged) => {
    const sent = forged(await signed({ secret }));
    expect(await deliver(sent)).toBe(401);
    expect(receiver().lines.some((line) => line.includes(sent.id))).toBe(false);
  });

  test.each([
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
  ])("refuses a delivery without %s", async (name) => {
    const sent = await signed({ secret });
    const { [name]: _, ...headers } = sent.headers;
    expect(await deliver({ ...sent, headers })).toBe(401);
  });

  test("refuses other methods", async () => {
    const { status } = await fetch(receiver().url);
    expect([405, 501]).toContain(status);
  });
}

/** Tests of a language's receiver; where it cannot run, one that is skipped, and a line that says so. */
export async function describeReceiver(language: Language): Promise<void> {
  const lacks = await language.lacks();
  if (lacks !== undefined) return skipped(`the receiver in ${language.name}`, `this machine lacks ${lacks}`);

  function running(settings: () => Settings): () => RunningReceiver {
    let receiver: RunningReceiver | undefined;
    beforeAll(async () => {
      receiver = await language.start(settings());
    });
    afterAll(() => receiver?.stop());
    return () => {
      if (!receiver) throw new Error("It is started before the tests");
      return receiver;
    };
  }

  describe(`the receiver in ${language.name}`, () => {
    describe("with a secret", () => {
      const secret = newSecret("hmac-sha256");
      const receiver = running(() => ({ WEBHOOK_SECRET: secret }));
      describeVerification({ receiver, secret, scheme: "hmac-sha256" });
    });

    describe("with public keys", () => {
      const secret = newSecret("ed25519");
      let keys: Awaited<ReturnType<typeof serveKeys>>;
      beforeAll(async () => {
        keys = await serveKeys();
      });
      afterAll(() => keys.close());
      const receiver = running(() => ({ WEBHOOK_JWKS: keys.url }));
      const accepts = async (sent: Sent) => (await send(receiver().url, sent)) === 204;
      const patience = { otherwise: () => receiver().lines.join("\n") };

      test("answers 503 while the keys cannot be fetched, and accepts when they can", async () => {
        const sent = await signed({ secret });
        const { headers, body } = sent;
        const answer = await fetch(receiver().url, { method: "POST", headers, body });
        expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "30"]);
        await keys.publish(secret);
        await until(() => accepts(sent), patience);
      });

      describeVerification({ receiver, secret, scheme: "ed25519" });

      test("fetches the keys again for a signature of a key that it does not know", async () => {
        const next = newSecret("ed25519");
        await keys.publish(next, secret);
        const sent = await signed({ secret: next });
        await until(() => accepts(sent), patience);
        expect(await accepts(await signed({ secret }))).toBe(true);
      });
    });
  });
}
