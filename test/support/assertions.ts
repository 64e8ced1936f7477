/**
 * The part of a Cloudflare Access team that the dashboard uses: keys that sign assertions, and the address where they
 * are published.
 */
import { sign } from "hono/jwt";
import type { Config } from "../../src/config.ts";
import { roleRules } from "../../src/core/role-rules.ts";
import { NOW } from "./api.ts";

export const ISSUER = "https://acme.cloudflareaccess.com";
export const AUDIENCE = "0a".repeat(32);
const NOW_S = NOW / 1000;

type Jwk = JsonWebKey & Readonly<{ kid: string }>;
type SigningKey = Readonly<{ privateKey: Jwk; publicKey: Jwk }>;

const RS256 = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
const generated = { ...RS256, modulusLength: 2_048, publicExponent: new Uint8Array([1, 0, 1]) };

export async function signingKey(kid: string): Promise<SigningKey> {
  const pair = (await crypto.subtle.generateKey(generated, true, ["sign", "verify"])) as CryptoKeyPair;
  const [privateKey, publicKey] = await Promise.all(
    [pair.privateKey, pair.publicKey].map(
      (key) => crypto.subtle.exportKey("jwk", key) as Promise<JsonWebKey>,
    ),
  );
  return {
    privateKey: { ...privateKey, alg: "RS256", kid } as Jwk,
    publicKey: { ...publicKey, alg: "RS256", use: "sig", kid } as Jwk,
  };
}

/** The payload of an assertion for a person, with other claims; a claim that is undefined is left out. */
export function payloadFor(email: string | undefined, other: object = {}) {
  return {
    iss: ISSUER,
    aud: [AUDIENCE],
    iat: NOW_S - 60,
    nbf: NOW_S - 60,
    exp: NOW_S + 3_600,
    type: "app",
    sub: "7335d417",
    ...(email !== undefined && { email }),
    ...other,
  };
}

/** An assertion, signed with the key. */
export function assertionOf({ privateKey }: SigningKey, payload: object): Promise<string> {
  return sign(payload as never, privateKey as never, "RS256");
}

/** A token of any header and payload, with a signature in base64url. */
export function tokenOf(header: unknown, payload: unknown, signature = "c2ln"): string {
  return `${encoded(header)}.${encoded(payload)}.${signature}`;
}

function encoded(part: unknown): string {
  const bytes = new TextEncoder().encode(JSON.stringify(part));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}

/** The configuration of such a team. Throws for faults of the rules. */
export function accessWith(rules: string): NonNullable<Config["access"]> {
  const parsed = roleRules(rules);
  if (parsed.faults.length > 0) throw new Error(parsed.faults.join());
  return { issuer: ISSUER, audience: AUDIENCE, rules: parsed.rules };
}

/** The address of the team's keys, which publishes those of the list and counts its requests. */
export function publishedKeys(keys: SigningKey[]) {
  const requests: string[] = [];
  const state = { isDown: false };
  const fetch = async (url: string | URL | Request) => {
    requests.push(String(url));
    if (state.isDown) throw new Error("Network connection lost.");
    return Response.json({ keys: keys.map(({ publicKey }) => publicKey), public_cert: {}, public_certs: [] });
  };
  return { requests, state, fetch: fetch as typeof globalThis.fetch };
}
