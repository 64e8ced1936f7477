/**
 * What this deployment says to itself through somebody's browser: a session, or the way into the portal.
 * Signed with a key of its own for each use, derived from `ADMIN_KEY`: neither can pass for the other, and
 * another `ADMIN_KEY` ends them all. Whoever takes one must look up whether it is still wanted.
 */
import { sign, verify } from "hono/jwt";
import { z } from "zod";
import type { Config } from "../config.ts";
import { type Scope, scopes } from "./auth.ts";

/** What all signing keys are derived from. */
type Root = Pick<Config, "adminKey">;

export type TokenUse = "session" | "portal";

const claims = z.object({
  /** Names the session that it is, or the one that it may open. */
  jti: z.string().min(1),
  /** Epoch seconds, as RFC 7519 has it. */
  exp: z.number(),
  key: z.string().nullable(),
  tenant: z.string().nullable(),
  scopes: z.array(z.enum(scopes)),
});

export type TokenClaims = Readonly<{
  id: string;
  /** The API key behind it; null: the first one, `ADMIN_KEY`. */
  keyId: string | null;
  tenant: string | null;
  scopes: readonly Scope[];
  /** Epoch ms. */
  expiresAt: number;
}>;

export async function signToken(config: Root, use: TokenUse, token: TokenClaims): Promise<string> {
  const { id, keyId, tenant, scopes, expiresAt } = token;
  const payload = { jti: id, exp: expiresAt / 1000, key: keyId, tenant, scopes: [...scopes] };
  return sign(payload, await signingKey(config, use), "HS256");
}

/** What a token says, or undefined when it is not ours, not for this use, or over at `now`. */
export async function readToken(
  config: Root,
  use: TokenUse,
  token: string,
  now: number,
): Promise<TokenClaims | undefined> {
  const payload = await verified(token, await signingKey(config, use));
  const parsed = claims.safeParse(payload);
  if (!parsed.success || parsed.data.exp * 1000 <= now) return undefined;
  const { jti: id, exp, key: keyId, tenant, scopes } = parsed.data;
  return { id, keyId, tenant, scopes, expiresAt: exp * 1000 };
}

/** The library throws for each fault apart; here they are all the same. The time is judged by our own clock. */
async function verified(token: string, key: string): Promise<unknown> {
  try {
    return await verify(token, key, { alg: "HS256", exp: false, iat: false, nbf: false });
  } catch {
    return undefined;
  }
}

/** 160 random bits. */
export function newTokenId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(20)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

/** HKDF (RFC 5869): one secret, as many keys as there are uses. */
async function signingKey({ adminKey }: Root, use: TokenUse): Promise<string> {
  const encode = (text: string) => new TextEncoder().encode(text);
  const secret = await crypto.subtle.importKey("raw", encode(adminKey), "HKDF", false, ["deriveBits"]);
  const how = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: encode(`breakwater ${use}`) };
  const bits = new Uint8Array(await crypto.subtle.deriveBits(how, secret, 256));
  return btoa(String.fromCharCode(...bits));
}
