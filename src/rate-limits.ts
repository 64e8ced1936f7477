/**
 * Rate limits of API keys, with the sessions that they have opened, of visits of the portal, of the service bindings of
 * a tenant, and of addresses whose requests have no valid key. The platform's rate-limit bindings count at each of
 * Cloudflare's locations, without a query or a written row. The operator's own requests (`ADMIN_KEY`, a service binding
 * without a tenant) are not limited, and without a binding there is no limit.
 */
import { isRemembered } from "./core/credentials.ts";
import { callerOf, type Principal } from "./core/principal.ts";
import type { Refused } from "./core/result.ts";
import { faultOf } from "./log.ts";
import { BoundedMap } from "./memory.ts";
import type { Services } from "./services.ts";

/** The period of the limits in wrangler.toml, in seconds: after it, requests are allowed again. */
const PERIOD_SECONDS = 10;

const limits = {
  ingest: {
    binding: "ingestLimit",
    detail: "posts more often than its limit. Post in batches, or less often",
  },
  write: {
    binding: "writeLimit",
    detail: "changes things more often than its limit. Change them less often",
  },
  read: {
    binding: "readLimit",
    detail: "reads more often than its limit. Read larger pages, or less often",
  },
  anonymous: {
    binding: "anonymousLimit",
    detail: "Too many requests without a valid key come from this address. Send a valid key, or wait",
  },
  challenge: {
    binding: "challengeLimit",
    detail:
      "This host has been asked for its consent too often. Wait, or renew the subscriptions that there are",
  },
} as const;

/** The answer to a client that is over the anonymous limit. */
export const ANONYMOUS_REFUSAL = overLimit(limits.anonymous.detail);

export type CallerLimit = "ingest" | "write" | "read";

/** Counts a request without a valid key; whether too many come from the client. */
export async function isOverAnonymousLimit(services: Services, client: string): Promise<boolean> {
  return !(await isAllowed(services, "anonymous", client));
}

/** The least time between two look-ups for a client that is over its limit. */
const LOOK_UP_MS = 1_000;
const MOST_LIMITED = 10_000;

/**
 * The clients that this isolate has just seen beyond the anonymous limit. It saves the queries of their further invented
 * keys. A client that is left out, because the isolate is new or there are too many, costs a query until it is seen again; one
 * stays for a period of the limit.
 */
export class LimitedClients {
  readonly #clients = new BoundedMap<{ since: number; lookedUpAt: number }>(MOST_LIMITED);

  add(client: string, now: number): void {
    const lookedUpAt = this.#clients.get(client)?.lookedUpAt ?? Number.NEGATIVE_INFINITY;
    this.#clients.set(client, { since: now, lookedUpAt });
  }

  /** Whether a key that this client sends may cost a query, which counts as one. */
  mayLookUp(client: string, now: number): boolean {
    const seen = this.#clients.get(client);
    if (seen === undefined) return true;
    if (!isRemembered(seen.since, now, PERIOD_SECONDS * 1000)) {
      this.#clients.delete(client);
      return true;
    }
    if (isRemembered(seen.lookedUpAt, now, LOOK_UP_MS)) return false;
    seen.lookedUpAt = now;
    return true;
  }
}

/** 429 when the principal posts or reads too often; else undefined. */
export async function overCallerLimit(services: Services, name: CallerLimit, principal: Principal) {
  const counted = countedBy(principal);
  if (counted === undefined || (await isAllowed(services, name, counted))) return undefined;
  return overLimit(`${callerOf(principal)} ${limits[name].detail}`);
}

const CHALLENGE_PERIOD_S = 60;

/** 429 when subscriptions of the tenant have requested the host's consent too often; else undefined. */
export async function overChallengeLimit(services: Services, tenant: string, host: string) {
  if (await isAllowed(services, "challenge", `${tenant} ${host}`)) return undefined;
  return { ...overLimit(limits.challenge.detail), retryAfterS: CHALLENGE_PERIOD_S };
}

/** Whether the token of a portal link is used too often: it stays valid when it has opened its visit. */
export async function isOverLinkLimit(
  services: Services,
  { tenant, id }: Readonly<{ tenant: string | null; id: string }>,
): Promise<boolean> {
  return !(await isAllowed(services, "read", `portal:${tenant}:link:${id}`));
}

/**
 * The key by which a principal's requests are counted. A visit of the portal counts by itself: the key that made its link
 * makes those of all customers. A session of the operator's own has no key, and no limit; a person has one in any role.
 */
function countedBy({ key, session, tenant = "", person }: Principal): string | undefined {
  if (session?.at === "portal") return `portal:${tenant}:${session.id}`;
  return person ? `person:${person.name}` : key;
}

/** A limiter that fails allows everything: it only protects, nothing is billed by it. */
async function isAllowed(services: Services, name: keyof typeof limits, key: string): Promise<boolean> {
  try {
    return (await services[limits[name].binding]?.limit({ key }))?.success ?? true;
  } catch (error) {
    services.log({ what: `${name}_limit_unreachable`, fault: faultOf(error) });
    return true;
  }
}

function overLimit(detail: string): Refused<"too_many"> {
  return { kind: "too_many", detail, retryAfterS: PERIOD_SECONDS };
}
