/**
 * Who is asking, and what may they do. Routes name the scope they need and take the tenant from the
 * principal; where principals come from is for `Authenticate` to say.
 */
import type { MiddlewareHandler } from "hono";
import { sign, verify } from "hono/jwt";
import { z } from "zod";
import type { Config } from "../config.ts";
import { isInForce, isRemembered, isWorthWriting, USE_WRITTEN_MS } from "../core/credentials.ts";
import { lookUpKey, type StoredKey, writeKeyUse } from "../db/auth.ts";
import { OPERATOR } from "../db/notifications.ts";
import { newKeyId, randomText } from "../ids.ts";
import type { Services } from "../services.ts";
import type { ApiEnv } from "./context.ts";
import { problem } from "./problems.ts";

export const scopes = ["events:write", "read", "admin"] as const;

export type Scope = (typeof scopes)[number];

export type Principal = Readonly<{
  /** The API key's id; absent for the operator's own `ADMIN_KEY`. */
  key?: string;
  scopes: readonly Scope[];
  /** Present when the key sees and touches only what belongs to this tenant. */
  tenant?: string;
  /** Epoch ms; present when the key ends by itself. */
  expiresAt?: number;
}>;

/** The principal of a bearer token, or undefined when it belongs to nobody. */
export type Authenticate = (services: Services, token: string) => Promise<Principal | undefined>;

/** The same for each of these, so that an answer tells nobody which keys exist. */
const NOT_VALID = "The key is not valid: it is unknown, revoked or expired";

/** Lets nobody pass without a valid key (RFC 6750). */
export function authenticated(authenticate: Authenticate): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const given = c.req.header("authorization");
    if (given === undefined) return unauthorized(`Authorization is missing; ${EXPECTED}`, "Bearer");
    const token = /^Bearer +([^\s]+) *$/i.exec(given)?.[1];
    if (token === undefined) {
      const detail = `Authorization has ${shapeFault(given)}; ${EXPECTED}`;
      return unauthorized(detail, 'Bearer error="invalid_request"');
    }
    const principal = await authenticate(c.get("services"), token);
    if (principal === undefined) return unauthorized(NOT_VALID, 'Bearer error="invalid_token"');
    c.set("principal", principal);
    await next();
    return;
  };
}

const EXPECTED = "expected Bearer and a key";

/** Schemes that are repeated when they are given; any other first word may be a part of somebody's key. */
const KNOWN_SCHEMES = ["Basic", "Digest", "Token", "ApiKey", "Negotiate"];

/** What is wrong with a header that is no bearer token. Nothing of it is repeated that may be secret. */
function shapeFault(given: string): string {
  const [scheme = "", ...rest] = given.trim().split(/\s+/);
  if (/^bearer$/i.test(scheme))
    return rest.length === 0 ? "no key after Bearer" : "more than a key after Bearer";
  if (rest.length === 0) return "no scheme before the key";
  const known = KNOWN_SCHEMES.find((name) => name.toLowerCase() === scheme.toLowerCase());
  return known ? `the scheme ${known}` : "a scheme that is not Bearer";
}

function unauthorized(detail: string, challenge: string) {
  return problem(401, detail, undefined, { "www-authenticate": challenge });
}

/** Why a principal may not hand on these scopes; undefined when it has them all: nobody gives what is not theirs. */
export function refuseScopes({ scopes: own }: Principal, wanted: readonly Scope[], field: string) {
  const lacking = wanted.filter((scope) => !own.includes(scope)).join(", ");
  if (lacking === "") return undefined;
  const fault = `asks for ${lacking}, which the key itself lacks`;
  const expected = `no more than ${own.join(", ")}`;
  return problem(403, `${field} ${fault}; expected ${expected}`, [{ field, fault, expected }]);
}

const required = new WeakMap<object, Scope>();

/** Lets a principal pass that has the scope. */
export function requires(scope: Scope): MiddlewareHandler<ApiEnv> {
  const middleware: MiddlewareHandler<ApiEnv> = async (c, next) => {
    if (!c.get("principal").scopes.includes(scope)) return problem(403, `The key lacks the scope ${scope}`);
    await next();
    return;
  };
  required.set(middleware, scope);
  return middleware;
}

/** The scope that a handler requires, so that the API's description says what is enforced. */
export function scopeOf(handler: object): Scope | undefined {
  return required.get(handler);
}

/**
 * The tenant that a request may post or create for: the one it names, unless the key is bound to another. For
 * the reserved tenant that is the operator's business alone: an admin's whose key is bound to none.
 */
export function tenantFor(principal: Principal, named: string | undefined): string | undefined {
  const tenant = named ?? principal.tenant ?? "default";
  const isOperator = principal.tenant === undefined && principal.scopes.includes("admin");
  if (tenant === OPERATOR) return isOperator ? tenant : undefined;
  return principal.tenant === undefined || principal.tenant === tenant ? tenant : undefined;
}

/** What is said where there is no such tenant. */
export const NOT_YOUR_TENANT =
  "The key belongs to another tenant, or the tenant is reserved for the operator";

// §§ What an API key looks like: `bw_<id>_<secret>`. The id finds the row, the secret proves the key, the prefix
// lets a scanner for leaked secrets recognise it. What is stored is the digest of the whole token: its 160
// random bits leave nothing to guess, so that a slow hash would add nothing but its slowness.

const SECRET_CHARACTERS = 32;

/** A new key. `token` is shown to its owner once and not kept; `hash` is kept. */
export async function newKey(): Promise<Readonly<{ id: string; token: string; hash: string }>> {
  const id = newKeyId();
  const token = `bw_${id.slice(4)}_${randomText(SECRET_CHARACTERS)}`;
  return { id, token, hash: hex(await digest(token)) };
}

/** The id of the key that a token claims to be; undefined when it is none of ours. */
export function claimedKey(token: string): string | undefined {
  const id = /^bw_([0-9a-z]{20})_[0-9a-z]{32}$/.exec(token)?.[1];
  return id && `key_${id}`;
}

/** Whether the token is the one that was stored as this hash. A hash edited into something else is nobody's. */
async function isTokenOf(token: string, hash: string): Promise<boolean> {
  return isSame(hex(await digest(token)), hash);
}

/** Compares digests, which are of one length, in constant time: the time taken tells nothing of either. */
async function isSame(a: string, b: string): Promise<boolean> {
  const [left, right] = await Promise.all([digest(a), digest(b)]);
  return crypto.subtle.timingSafeEqual(left, right);
}

function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}

function hex(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// §§ Finds the principal of an API key, and remembers the key's row for a moment: a busy key costs a query now
// and then, and not one for each request. Keys that do not exist are never remembered, so that inventing
// them fills no memory and a new key works at once.

/** Keys remembered at once; beyond that the one remembered first is forgotten. */
const MAX_REMEMBERED = 1000;

type Known = { readonly key: StoredKey; readonly askedAt: number; lastUsedAt: number | null };
type Memory = Map<string, Known>;

/** Takes the `ADMIN_KEY`, which may do everything, and every stored key. Each call makes a memory of its own. */
export function byKey(): Authenticate {
  const memory: Memory = new Map();
  return async (services, token) => {
    if (await isSame(token, services.config.adminKey)) return { scopes };
    const id = claimedKey(token);
    const known = id === undefined ? undefined : await recall(memory, services, id);
    if (known === undefined || !(await isTokenOf(token, known.key.hash))) return undefined;
    const now = services.now();
    if (!isInForce(known.key, now)) return undefined;
    noteUse(services, known, now);
    return principalOf(known.key);
  };
}

async function recall(memory: Memory, { db, now }: Services, id: string): Promise<Known | undefined> {
  const remembered = memory.get(id);
  const askedAt = now();
  if (remembered && isRemembered(remembered.askedAt, askedAt)) return remembered;
  memory.delete(id);
  const key = await lookUpKey(db, id);
  if (key === undefined) return undefined;
  const known = { key, askedAt, lastUsedAt: key.lastUsedAt };
  memory.set(id, known);
  const [oldest] = memory.size > MAX_REMEMBERED ? memory.keys() : [];
  if (oldest !== undefined) memory.delete(oldest);
  return known;
}

function noteUse(services: Services, known: Known, now: number): void {
  if (!isWorthWriting(known.lastUsedAt, now)) return;
  known.lastUsedAt = now;
  services.background(writeKeyUse(services.db, known.key.id, now, now - USE_WRITTEN_MS));
}

/** What the row allows; scopes that a person has edited into nonsense allow nothing. */
function principalOf({ id, tenant, scopes: stored, expiresAt }: StoredKey): Principal {
  const given = scopes.filter((scope) => Array.isArray(stored) && stored.includes(scope));
  return {
    key: id,
    scopes: given,
    ...(tenant !== null && { tenant }),
    ...(expiresAt !== null && { expiresAt }),
  };
}

// §§ What this deployment says to itself through somebody's browser: a session, or the way into the portal.
// Signed with a key of its own for each use, derived from `ADMIN_KEY`: neither can pass for the other, and
// another `ADMIN_KEY` ends them all. Whoever takes one must look up whether it is still wanted.

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
