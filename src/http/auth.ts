/**
 * Authentication and authorization. A request is made with an API key, the dashboard's with a session token; both give
 * a `Principal`, and routes name the scope that it needs.
 *
 * An API key is `bw_<id>_<secret><checksum>`: the id finds the row, the secret proves the key, the checksum refuses an
 * invented key without a query, and the prefix lets a scanner for leaked secrets recognise it. The SHA-256 of the whole
 * key is stored: its 160 random bits cannot be guessed, so that a slow hash would add only its slowness. Isolates
 * remember keys (key-cache.ts), so that a busy key does not cost a query for each request, and a new key works at once.
 *
 * A checksum can be computed by anyone who knows the format, so that an invented key with a correct one costs a query.
 * After too many of them, keys from that address are looked up only once a second: a key that the isolate does not know
 * yet and that comes from the same address is valid at one of its next requests.
 */

import type { MiddlewareHandler } from "hono";
import { claimedKey, isInForce, isWorthWriting, USE_WRITTEN_MS } from "../core/credentials.ts";
import { type Permission, type Principal, refuseWithout } from "../core/principal.ts";
import { type Scope, scopes } from "../core/scopes.ts";
import { isKeyHash, keyDigest, principalOfCredentials } from "../features/keys/credentials.ts";
import { KeyCache, type RememberedKey } from "../features/keys/key-cache.ts";
import { writeKeyUses } from "../features/keys/sql.ts";
import { ANONYMOUS_REFUSAL, isOverAnonymousLimit, LimitedClients } from "../rate-limits.ts";
import type { Services } from "../services.ts";
import type { ApiEnv } from "./context.ts";
import { answerOf, type ProblemResponse, problem } from "./problems.ts";
import { clientOf, overAnonymousLimit } from "./rate-limit.ts";

/**
 * The principal of a bearer token; undefined when the token is not a valid key, and "limited" when too many such tokens
 * come from the address of the request. Without a request nothing is limited.
 */
export type Authenticate = (
  services: Services,
  token: string,
  request?: Request,
) => Promise<Principal | "limited" | undefined>;

/**
 * Middleware: 401 without a valid key (RFC 6750), or 429 when that happens too often from one address; else sets
 * `principal`. A valid key is never limited by its caller's address, which others may share.
 */
export function authenticated(authenticate: Authenticate): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const services = c.get("services");
    const token = tokenIn(c.req.header("authorization"));
    if (token instanceof Response) return (await overAnonymousLimit(services, c.req.raw)) ?? token;
    const found = await authenticate(services, token.given, c.req.raw);
    if (found === "limited") return answerOf(ANONYMOUS_REFUSAL);
    if (found === undefined) return unauthorized(NOT_VALID, 'Bearer error="invalid_token"');
    c.set("principal", found);
    return next();
  };
}

/** The token of an Authorization header, or the 401. */
function tokenIn(given: string | undefined): Readonly<{ given: string }> | ProblemResponse<401> {
  if (given === undefined) return unauthorized(`Authorization is missing; ${EXPECTED}`, "Bearer");
  const token = /^Bearer +([^\s]+) *$/i.exec(given)?.[1];
  if (token === undefined) {
    const detail = `Authorization has ${shapeFault(given)}; ${EXPECTED}`;
    return unauthorized(detail, 'Bearer error="invalid_request"');
  }
  return { given: token };
}

const EXPECTED = "expected Bearer and a key";

/** One text for all three, so that an answer does not reveal which keys exist. */
const NOT_VALID = "The key is not valid: it is unknown, revoked or expired";

/** Schemes that an answer may name; any other first word may be part of a key. */
const KNOWN_SCHEMES = ["Basic", "Digest", "Token", "ApiKey", "Negotiate"];

/** The fault of a header that is not a bearer token. Parts that may be secret are not repeated. */
function shapeFault(given: string): string {
  const [scheme = "", ...rest] = given.trim().split(/\s+/);
  if (/^bearer$/i.test(scheme))
    return rest.length === 0 ? "no key after Bearer" : "more than one word after Bearer";
  if (rest.length === 0) return "no scheme before the key";
  const known = KNOWN_SCHEMES.find((name) => name.toLowerCase() === scheme.toLowerCase());
  return known ? `the scheme ${known}` : "a scheme that is not Bearer";
}

function unauthorized(detail: string, challenge: string) {
  return problem(401, detail, undefined, { "www-authenticate": challenge });
}

/** Middleware: 403 when the principal lacks the permission, before the request is read. */
export function requires(scope: Scope): MiddlewareHandler<ApiEnv> {
  return permitting({ scope });
}

/** The same for the permission of a service, which checks it once more when it is called. */
export function permitting(permission: Permission): MiddlewareHandler<ApiEnv> {
  const middleware: MiddlewareHandler<ApiEnv> = async (c, next) => {
    const refusal = refuseWithout(permission, c.get("principal"));
    return refusal ? answerOf(refusal) : next();
  };
  required.set(middleware, permission.scope);
  return middleware;
}

const required = new WeakMap<object, Scope>();

/** The scope that a handler requires: the OpenAPI document takes it from the middleware that enforces it. */
export function scopeOf(handler: object): Scope | undefined {
  return required.get(handler);
}

/**
 * Accepts `ADMIN_KEY`, which has every scope, and every stored key that is in force. Counts the other tokens by the
 * address that they come from. Each call makes its own cache.
 */
export function byKey(): Authenticate {
  const cache = new KeyCache();
  const limited = new LimitedClients();
  const uses = new KeyUses();
  let admin: Readonly<{ key: string; digest: ArrayBuffer }> | undefined;
  return async (services, token, request) => {
    const { adminKey } = services.config;
    if (admin?.key !== adminKey) admin = { key: adminKey, digest: await keyDigest(adminKey) };
    const given = await keyDigest(token);
    // Digests, because `timingSafeEqual` needs equal lengths.
    if (crypto.subtle.timingSafeEqual(given, admin.digest)) return { scopes };
    const client = request && clientOf(request);
    const id = claimedKey(token);
    const remembered = id === undefined ? null : await cache.remembered(services, id);
    if (remembered === undefined && client !== undefined && !limited.mayLookUp(client, services.now()))
      return "limited";
    const found =
      remembered === undefined && id !== undefined ? await cache.lookUp(services, id) : remembered;
    const now = services.now();
    if (found && isInForce(found.credentials, now) && isKeyHash(found.credentials.hash, given)) {
      uses.record(services, found, now);
      return principalOfCredentials(found.credentials);
    }
    if (client === undefined || !(await isOverAnonymousLimit(services, client))) return undefined;
    limited.add(client, now);
    return "limited";
  };
}

/** The number of uses that are written one by one within `USES_MS`; later ones wait for the next write. */
const SINGLE_USES = 20;
const USES_MS = 10_000;

/** The uses of keys that an isolate writes; with thousands of keys, many in one statement. */
class KeyUses {
  #pending: string[] = [];
  #since = 0;
  #written = 0;

  record(services: Services, key: RememberedKey, now: number): void {
    if (isWorthWriting(key.lastUsedAt, now)) {
      key.lastUsedAt = now;
      this.#pending.push(key.credentials.id);
    }
    if (this.#pending.length === 0) return;
    if (now < this.#since || now - this.#since >= USES_MS) {
      this.#since = now;
      this.#written = 0;
    }
    if (this.#written >= SINGLE_USES) return;
    this.#written += 1;
    const ids = this.#pending.splice(0);
    services.background(writeKeyUses(services.db, ids, now, now - USE_WRITTEN_MS));
  }
}
