/**
 * Tokens of sessions and portal links, as JWTs (RFC 7519). Each use has a key of its own, so that one cannot pass for the
 * other. The keys are derived from the master keys: the first signs and all of them verify, so a token survives the
 * rotation of the master key until the old one is removed. `ADMIN_KEY` is part of the derivation: a new one ends all of
 * them at once. Whoever reads a token must look up whether the session or link is still valid.
 */
import { sign, verify } from "hono/jwt";
import { z } from "zod";
import { type Scope, scopes } from "../core/scopes.ts";
import { derivedKeys, type MasterKeys } from "./vault.ts";

/** What a token is for: a session at the dashboard, a portal link, or the session that one has opened. */
type TokenUse = "session" | "portal" | "portal_session";

type SigningConfig = Readonly<{ adminKey: string; masterKeys: MasterKeys }>;

type TokenClaims = Readonly<{
  id: string;
  /** The API key that it was made with; null for `ADMIN_KEY`. */
  keyId: string | null;
  tenant: string | null;
  scopes: readonly Scope[];
  /** Epoch ms. */
  expiresAt: number;
  /** Of a portal link: when it was made, epoch ms. Links of versions before 0.3 do not say it. */
  issuedAt?: number | undefined;
  /** Of a portal link: what its visitor may do. */
  visit?: unknown;
}>;

const claims = z.object({
  /** The id of the session, or of the one that a portal link opens. */
  jti: z.string().min(1),
  /** Epoch seconds, as RFC 7519 has it. */
  exp: z.number(),
  iat: z.number().optional(),
  key: z.string().nullable(),
  tenant: z.string().nullable(),
  scopes: z.array(z.enum(scopes)),
  visit: z.unknown().optional(),
});

/** A session token or the token of a portal link, as a JWT. */
export async function signToken(config: SigningConfig, use: TokenUse, token: TokenClaims): Promise<string> {
  const { id, keyId, tenant, scopes, expiresAt, issuedAt, visit } = token;
  const times = { exp: expiresAt / 1000, ...(issuedAt !== undefined && { iat: issuedAt / 1000 }) };
  const payload = { jti: id, ...times, key: keyId, tenant, scopes: [...scopes], visit };
  const [current = ""] = await signingKeys(config, use);
  return sign(payload, current, "HS256");
}

/** The claims of a token; undefined when it is not ours, not for this use, or has expired at `now`. */
export async function readToken(
  config: SigningConfig,
  use: TokenUse,
  token: string,
  now: number,
): Promise<TokenClaims | undefined> {
  const payload = await verified(token, await signingKeys(config, use));
  const parsed = claims.safeParse(payload);
  if (!parsed.success || parsed.data.exp * 1000 <= now) return undefined;
  const { jti: id, exp, iat, key: keyId, tenant, scopes, visit } = parsed.data;
  const issuedAt = iat === undefined ? undefined : Math.round(iat * 1000);
  return { id, keyId, tenant, scopes, expiresAt: exp * 1000, issuedAt, visit };
}

/** Undefined when no key verifies it, for every fault that the library throws for. Expiry is checked by our own clock. */
async function verified(token: string, keys: readonly string[]): Promise<unknown> {
  for (const key of keys) {
    try {
      return await verify(token, key, { alg: "HS256", exp: false, iat: false, nbf: false });
    } catch {
      // Another key may have signed it.
    }
  }
  return undefined;
}

/** A random id for a session, of 160 bits. */
export function newTokenId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(20)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

const derived = new WeakMap<SigningConfig, Map<TokenUse, Promise<string[]>>>();

/** The keys of a use, the first of which signs; derived once for each configuration. */
function signingKeys(config: SigningConfig, use: TokenUse): Promise<string[]> {
  const known = derived.get(config) ?? new Map<TokenUse, Promise<string[]>>();
  derived.set(config, known);
  const keys = known.get(use) ?? derivedKeys(config.masterKeys, use, config.adminKey);
  known.set(use, keys);
  return keys;
}
