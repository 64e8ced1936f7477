/**
 * The public keys that a team of Cloudflare Access signs assertions with. Cloudflare replaces them every six weeks, and both
 * the old and the new one are valid for a week. An isolate fetches them when an assertion names one that it does not know.
 */
import { z } from "zod";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { within } from "../time.ts";

/** The shortest time between fetches of an isolate, even if unknown keys are named: anyone can invent their names. */
export const KEYS_FETCHED_MS = 10_000;
/** Keys are fetched again after this, and a key that Cloudflare has withdrawn is refused. */
const FRESH_MS = 60 * 60_000;
/** If that fails, how long the old keys are used. */
const USABLE_MS = 24 * FRESH_MS;
const PATIENCE_MS = 5_000;
/** How often a request checks whether the first fetch, which another one makes, has ended. */
const POLL_MS = 50;

const jwk = z.object({
  kid: z.string().min(1),
  kty: z.literal("RSA"),
  alg: z.literal("RS256").optional(),
  n: z.string(),
  e: z.string(),
});
const jwks = z.object({ keys: z.array(z.unknown()).max(20) });

/** The keys of one isolate. */
export class AccessKeys {
  #keys: ReadonlyMap<string, CryptoKey> = new Map();
  #fetchedAt = Number.NEGATIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;
  #state: "fetching" | "fetched" | "failed" = "fetched";

  /** The key of this name; undefined if the team has none; "unreachable" if that is unknown. */
  async named(
    services: Services,
    issuer: string,
    kid: string,
  ): Promise<CryptoKey | "unreachable" | undefined> {
    const known = this.#keys.get(kid);
    if (known && services.now() - this.#fetchedAt < FRESH_MS) return known;
    if (this.#mayFetch(services.now())) await this.#fetch(services, issuer);
    else await this.#first(services);
    if (services.now() - this.#fetchedAt >= USABLE_MS) return "unreachable";
    return this.#keys.get(kid) ?? (this.#state === "failed" ? "unreachable" : undefined);
  }

  #mayFetch(now: number): boolean {
    return now - this.#triedAt >= KEYS_FETCHED_MS || now < this.#triedAt;
  }

  /** Waits for the first keys. Not for another request's promise, which may end with that request. */
  async #first({ now, sleep }: Services): Promise<void> {
    const isUnderWay = () => this.#keys.size === 0 && this.#state === "fetching";
    while (isUnderWay() && now() - this.#triedAt < PATIENCE_MS) await sleep(POLL_MS);
  }

  async #fetch(services: Services, issuer: string): Promise<void> {
    const startedAt = services.now();
    this.#triedAt = startedAt;
    this.#state = "fetching";
    const abort = new AbortController();
    try {
      const work = fetchKeys(services, issuer, abort.signal);
      // Abandoned work may fail later, when it is no longer awaited.
      work.catch(() => {});
      this.#keys = await within(services, PATIENCE_MS, work);
      this.#fetchedAt = startedAt;
      this.#state = "fetched";
    } catch (error) {
      this.#state = "failed";
      services.log({ what: "access_keys_unreachable", fault: faultOf(error) });
    } finally {
      abort.abort();
    }
  }
}

/** Throws if they cannot be fetched. */
async function fetchKeys({ fetch }: Services, issuer: string, signal: AbortSignal) {
  const response = await fetch(`${issuer}/cdn-cgi/access/certs`, { redirect: "manual", signal });
  if (response.status !== 200) throw new Error(`The answer has the status ${response.status}`);
  const { keys } = jwks.parse(await response.json());
  const named = (await Promise.all(keys.map(verifyingKey))).flatMap((one) => (one ? [one] : []));
  if (named.length === 0) throw new Error("The answer has no RSA key");
  return new Map(named);
}

/** Undefined for a key of another kind. */
async function verifyingKey(given: unknown): Promise<[string, CryptoKey] | undefined> {
  const parsed = jwk.safeParse(given);
  if (!parsed.success) return undefined;
  const { kid, kty, n, e } = parsed.data;
  const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  const key = crypto.subtle.importKey("jwk", { kty, n, e, alg: "RS256" }, algorithm, false, ["verify"]);
  return key.then(
    (imported) => [kid, imported],
    () => undefined,
  );
}
