/**
 * Tokens of sessions and portal links, as JWTs (RFC 7519). Each use has a key of its own, so that one cannot pass for
 * the other. The keys are derived from the master keys: the first signs and all of them verify, so a token survives the
 * rotation of the master key until the old one is removed. `ADMIN_KEY` is part of the derivation: a new one ends all of
 * them at once. A reader of a token must look up whether the session or link is still valid.
 *
 * Visitors can read the contents of a token. So the id of the API key that made a link is sealed in it, and a session's
 * token names no key: the stored session does.
 */
import { sign, verify } from "hono/jwt";
import { z } from "zod";
import { type Scope, scopes } from "../core/scopes.ts";
import { derivedKeys, type MasterKeys, seal, unseal } from "./vault.ts";

/**
 * The purpose of a token: a session at the dashboard, a portal link, the session that one has opened, or an agent within that
 * session, whose changes the visitor may have to confirm.
 */
type TokenUse = "session" | "portal" | "portal_session" | "agent" | "confirming_agent";

type SigningConfig = Readonly<{ adminKey: string; masterKeys: MasterKeys }>;

type TokenClaims = Readonly<{
  id: string;
  /** The API key that made a portal link; null for `ADMIN_KEY` and for sessions. */
  keyId: string | null;
  tenant: string | null;
  scopes: readonly Scope[];
  /** Epoch ms. */
  expiresAt: number;
  /** When a portal link was made, epoch ms. Links of versions before 0.3 lack it. */
  issuedAt?: number | undefined;
  /** The permissions of a portal link's visitor. */
  visit?: unknown;
}>;

const claims = z.object({
  /** The id of the session, or of the one that a portal link opens. */
  jti: z.string().min(1),
  /** Epoch seconds, as RFC 7519 has it. */
  exp: z.number(),
  iat: z.number().optional(),
  /** The API key as it is in links of 0.3.0, which are valid for a week; null for none. */
  key: z.string().nullish(),
  /** The API key, sealed for `jti`. */
  maker: z.string().optional(),
  tenant: z.string().nullable(),
  scopes: z.array(z.enum(scopes)),
  visit: z.unknown().optional(),
});

/** A session token or the token of a portal link, as a JWT. */
export async function signToken(config: SigningConfig, use: TokenUse, token: TokenClaims): Promise<string> {
  const { id, keyId, tenant, scopes, expiresAt, issuedAt, visit } = token;
  const times = { exp: expiresAt / 1000, ...(issuedAt !== undefined && { iat: issuedAt / 1000 }) };
  // Without `key` 0.3.0 refuses a token, and with null takes it for one of `ADMIN_KEY`.
  const maker = keyId === null ? { key: null } : { maker: await seal(config.masterKeys, id, keyId, "link") };
  const payload = { jti: id, ...times, ...maker, tenant, scopes: [...scopes], visit };
  const [current = ""] = await signingKeys(config, use);
  return sign(payload, current, "HS256");
}

/** The claims of a token; undefined when it was not signed here, is not for this use, or has expired at `now`. */
export async function readToken(
  config: SigningConfig,
  use: TokenUse,
  token: string,
  now: number,
): Promise<TokenClaims | undefined> {
  const payload = await verified(token, await signingKeys(config, use));
  const parsed = claims.safeParse(payload);
  if (!parsed.success || parsed.data.exp * 1000 <= now) return undefined;
  const { jti: id, exp, iat, key, maker, tenant, scopes, visit } = parsed.data;
  const keyId = maker === undefined ? key : await opened(config, id, maker);
  if (keyId === undefined) return undefined;
  const issuedAt = iat === undefined ? undefined : Math.round(iat * 1000);
  return { id, keyId, tenant, scopes, expiresAt: exp * 1000, issuedAt, visit };
}

/** The id of the key that made the link; undefined when its master key has been removed. */
async function opened({ masterKeys }: SigningConfig, link: string, maker: string) {
  try {
    return await unseal(masterKeys, link, maker, ["link"]);
  } catch {
    return undefined;
  }
}

/**
 * Undefined when no key verifies it, for every fault that the library throws for. Expiry is checked by the services'
 * clock.
 */
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
