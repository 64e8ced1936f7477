/**
 * Portal links. A link opens the portal of one tenant for a customer without a key: it is signed, valid for a while, and
 * works once. The sender's own product requests it for a user who is signed in there. The link itself says what its visitor
 * may do, and can only narrow what the tenant's settings allow.
 */
import { accessUnder, type PortalVisit, readOnlyRules, scopesUnder } from "../../core/portal-access.ts";
import { notYourTenant, refuseScopes, tenantFor } from "../../core/principal.ts";
import { ok } from "../../core/result.ts";
import { newTokenId, signToken } from "../../secrets/tokens.ts";
import { isoTime } from "../../time.ts";
import { refuseApplicationsName } from "../applications/service.ts";
import { service } from "../service.ts";
import { HOUR_S, type NewPortalLink, type PortalLink } from "./schema.ts";

type Input = Readonly<{
  options: NewPortalLink;
  /** Any URL of the deployment: the link has its host. */
  requestUrl: string;
}>;

/** Makes a link. Refused where the principal lacks a scope that the visitor would have. */
export const createPortalLink = service(
  { scope: "admin" },
  async ({ services, principal, changed }, { options, requestUrl }: Input) => {
    const { config, now } = services;
    const tenant = tenantFor(principal, options.tenant);
    if (tenant === undefined) return notYourTenant(principal);
    const { expires_in_s = HOUR_S, read_only = false } = options;
    const rules = { ...options.access, ...(read_only && readOnlyRules) };
    const scopes = scopesUnder(accessUnder(rules));
    const refusal = refuseScopes(principal, scopes, "read_only");
    if (refusal) return refusal;
    const named = principal.tenant === undefined ? options.tenant : undefined;
    const namesake = await refuseApplicationsName(services, principal, named);
    if (namesake) return namesake;
    const { language = null, theme = null, return_url = null } = options;
    const visit: PortalVisit = { rules, language, theme, return_url };
    const issuedAt = now();
    const expiresAt = Math.floor(issuedAt / 1000 + expires_in_s) * 1000;
    const id = newTokenId();
    const claims = { id, keyId: principal.key ?? null, tenant, scopes, expiresAt, issuedAt, visit };
    const token = await signToken(config, "portal", claims);
    changed("portal_link.created", { id, tenant });
    const url = new URL(`/portal/enter?token=${token}`, requestUrl).href;
    return ok<PortalLink>({ url, tenant, read_only, expires_at: isoTime(expiresAt) });
  },
);
