/**
 * Sign-in by Cloudflare Access. Access adds an assertion to each request that it lets through: a JWT (RFC 7519) of the team,
 * for one application. Every request is verified separately, and the role comes from the configuration each time: nothing is
 * stored, so that a lowered role applies at once.
 * https://developers.cloudflare.com/cloudflare-one/access-controls/applications/http-apps/authorization-cookie/
 */
import { decode, verify } from "hono/jwt";
import { z } from "zod";
import type { AccessConfig } from "../config.ts";
import type { Principal } from "../core/principal.ts";
import { type Identity, isEmail, ruleFor } from "../core/role-rules.ts";
import { scopesOfRole } from "../core/roles.ts";
import type { Services } from "../services.ts";
import { AccessKeys } from "./access-keys.ts";

export type Identified =
  | Readonly<{
      kind: "person";
      /** The principal, within the first of the tenants, if there are any. */
      principal: Principal;
      /** The person chooses one of them; absent: all. */
      tenants?: readonly string[];
    }>
  /** The assertion is valid, but no rule names its subject. */
  | Readonly<{ kind: "unnamed"; name: string }>
  /** @param fault completes "The assertion of Cloudflare Access" */
  | Readonly<{ kind: "refused"; fault: string }>
  /** The team's keys cannot be read, so that nothing can be verified. */
  | Readonly<{ kind: "unavailable" }>;

/** The result for an assertion; undefined if the deployment has no sign-in by Cloudflare Access. */
export type Identify = (services: Services, assertion: string) => Promise<Identified | undefined>;

/** Verifies assertions by the team's keys. Each call makes its own cache of these. */
export function byAccess(): Identify {
  const keys = new AccessKeys();
  return async (services, assertion) => {
    const { access } = services.config;
    if (access === undefined) return undefined;
    const verified = await verifiedBy(keys, services, access, assertion);
    return verified.kind === "person" || verified.kind === "service" ? personOf(access, verified) : verified;
  };
}

function personOf({ rules }: AccessConfig, identity: Identity): Identified {
  const name = identity.kind === "person" ? identity.email : identity.name;
  const rule = ruleFor(rules, identity);
  if (rule === undefined) return { kind: "unnamed", name };
  const { role, tenants } = rule;
  const [tenant] = tenants ?? [];
  const person = { name, role };
  return {
    kind: "person",
    principal: { person, scopes: scopesOfRole(role), ...(tenant !== undefined && { tenant }) },
    ...(tenants && { tenants }),
  };
}

/** Beyond what a browser sends in a cookie. */
const MOST_CHARACTERS = 16_384;
/** How far Cloudflare's clock may be ahead of this one. */
const SKEW_S = 5;

const header = z.object({ alg: z.literal("RS256"), kid: z.string().min(1).max(200) });
const claims = z.object({
  iss: z.string(),
  aud: z.union([z.string(), z.array(z.string())]),
  /** Epoch seconds. Assertions of service tokens have no `nbf`. */
  exp: z.number(),
  iat: z.number(),
  nbf: z.number().optional(),
  type: z.literal("app").optional(),
  /** Absent for service tokens, which have their client id as `common_name`. */
  email: z.string().optional(),
  common_name: z.string().min(1).max(256).optional(),
  /** The claims of the identity provider that are configured to be passed on. */
  custom: z.object({ groups: z.unknown() }).optional().catch(undefined),
});
type Claims = z.infer<typeof claims>;

type NotVerified = Extract<Identified, { kind: "refused" | "unavailable" }>;

async function verifiedBy(
  keys: AccessKeys,
  services: Services,
  access: AccessConfig,
  assertion: string,
): Promise<Identity | NotVerified> {
  if (assertion.length > MOST_CHARACTERS) return refused("is too long");
  const head = header.safeParse(headerOf(assertion));
  if (!head.success) return refused("is not a JWT with RS256 and the name of a key");
  const key = await keys.named(services, access.issuer, head.data.kid);
  if (key === "unreachable") return { kind: "unavailable" };
  if (key === undefined) return refused("is signed with a key that is not the team's");
  const payload = await payloadOf(assertion, key);
  if (payload === undefined) return refused("has a wrong signature");
  const parsed = claims.safeParse(payload);
  if (!parsed.success) return refused("does not have the claims of one");
  const fault = claimFault(parsed.data, access, services.now() / 1000);
  return fault === undefined ? identityOf(parsed.data) : refused(fault);
}

function refused(fault: string): NotVerified {
  return { kind: "refused", fault };
}

function headerOf(assertion: string): unknown {
  try {
    return decode(assertion).header;
  } catch {
    return undefined;
  }
}

/** Undefined if the signature is not the key's. The times are checked with the clock of the services. */
async function payloadOf(assertion: string, key: CryptoKey): Promise<unknown> {
  try {
    return await verify(assertion, key, { alg: "RS256", exp: false, nbf: false, iat: false });
  } catch {
    return undefined;
  }
}

function claimFault(
  { iss, aud, exp, iat, nbf = iat }: Claims,
  { issuer, audience }: AccessConfig,
  nowS: number,
): string | undefined {
  if (iss !== issuer) return "is not from the team of ACCESS_TEAM";
  if (![aud].flat().includes(audience)) return "is for another application than that of ACCESS_AUDIENCE";
  if (exp <= nowS) return "has expired";
  return Math.max(iat, nbf) > nowS + SKEW_S ? "is not valid yet" : undefined;
}

function identityOf({ email = "", common_name, custom }: Claims): Identity | NotVerified {
  if (isEmail(email)) return { kind: "person", email, groups: groupsIn(custom?.groups) };
  if (email === "" && common_name !== undefined) return { kind: "service", name: common_name };
  return refused("names neither a person nor a service token");
}

/** The groups that the identity provider passes on: a list of names, or the one name. */
function groupsIn(given: unknown): readonly string[] {
  return [given].flat().filter((group) => typeof group === "string");
}
