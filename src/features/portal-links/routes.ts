/**
 * Portal links. A link opens the portal of one tenant for a customer without a key: it is signed, valid for a while, and
 * good for one session. The sender's own product requests it for a user who is signed in there. What it says of its visitor
 * travels in the link itself, and only narrows what the tenant's settings allow.
 */

import { createRoute, z } from "@hono/zod-openapi";
import {
  accessUnder,
  type PortalRules,
  type PortalVisit,
  portalAppearance,
  portalRules,
  readOnlyRules,
  scopesUnder,
} from "../../core/portal-access.ts";
import { isHttpsUrl } from "../../core/portal-branding.ts";
import { notYourTenant, type Principal, refuseScopes, tenantFor } from "../../core/principal.ts";
import type { Refused } from "../../core/result.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { jsonAnswer, jsonRequest, strict, tenantName } from "../../http/parameters.ts";
import { answerOf, problemResponses } from "../../http/problems.ts";
import { newTokenId, signToken } from "../../secrets/tokens.ts";
import type { Services } from "../../services.ts";
import { isoTime } from "../../time.ts";
import { record } from "../audit/trail.ts";

export function registerPortalLinks(api: Api): void {
  api.openapi(postPortalLink, async (c) => {
    const made = await createPortalLink(
      c.get("services"),
      c.get("principal"),
      c.req.valid("json"),
      c.req.url,
    );
    return "kind" in made ? answerOf(made) : c.json(made, 201);
  });
}

const HOUR_S = 3600;
const EXPIRY_EXPECTED = "expected a whole number of seconds from 60 to 604800";
const RETURN_EXPECTED = "expected an https URL of at most 2000 characters, or null";

const newPortalLink = strict({
  tenant: tenantName,
  expires_in_s: z
    .int({ error: EXPIRY_EXPECTED })
    .min(60, { error: EXPIRY_EXPECTED })
    .max(7 * 24 * HOUR_S, { error: EXPIRY_EXPECTED })
    .default(HOUR_S)
    .openapi({ description: "For how many seconds the link can be opened; an hour by default." }),
  read_only: z
    .boolean({ error: "expected true or false" })
    .default(false)
    .openapi({ description: "Whether the visitor can only read, whatever `access` says." }),
  access: portalRules.nullish().openapi({
    description:
      "What the visitor may do, and up to which limits. It narrows what `portal` of the tenant's settings allows, and never " +
      "widens it. What is left out is not restricted further.",
  }),
  ...portalAppearance,
  return_url: z
    .string({ error: RETURN_EXPECTED })
    .refine(isHttpsUrl, { error: RETURN_EXPECTED })
    .nullish()
    .openapi({ description: "A page of yours, https, that each page of the portal links back to." }),
}).openapi("NewPortalLink");

const portalLink = z
  .object({
    url: z.string(),
    tenant: z.string(),
    read_only: z.boolean(),
    expires_at: z.iso.datetime().openapi({ description: "Until when the link can be opened." }),
  })
  .openapi("PortalLink");

type PortalLink = z.infer<typeof portalLink>;

/** What a link may say; what is left out has its default. */
export type PortalLinkOptions = Readonly<{
  tenant: string;
  /** 60 to 604,800; an hour by default. */
  expires_in_s?: number | undefined;
  read_only?: boolean | undefined;
  access?: PortalRules | null | undefined;
  language?: PortalVisit["language"] | undefined;
  theme?: PortalVisit["theme"] | undefined;
  return_url?: string | null | undefined;
}>;

/**
 * Makes a link; 403 where the caller may not act for the tenant, or lacks a scope that the visitor would have.
 * @param options valid, as the schema of the route has it
 * @param at any URL of the deployment: the link has its host
 */
export async function createPortalLink(
  services: Services,
  principal: Principal,
  options: PortalLinkOptions,
  at: string,
): Promise<PortalLink | Refused<"forbidden">> {
  const { config, now } = services;
  const tenant = tenantFor(principal, options.tenant);
  if (tenant === undefined) return notYourTenant(principal);
  const { expires_in_s = HOUR_S, read_only = false } = options;
  const rules = { ...options.access, ...(read_only && readOnlyRules) };
  const scopes = scopesUnder(accessUnder(rules));
  const refusal = refuseScopes(principal, scopes, "read_only");
  if (refusal) return refusal;
  const { language = null, theme = null, return_url = null } = options;
  const visit: PortalVisit = { rules, language, theme, return_url };
  const issuedAt = now();
  const expiresAt = Math.floor(issuedAt / 1000 + expires_in_s) * 1000;
  const id = newTokenId();
  const claims = { id, keyId: principal.key ?? null, tenant, scopes, expiresAt, issuedAt, visit };
  const token = await signToken(config, "portal", claims);
  await record(services, principal, [{ action: "portal_link.created", subject: id, tenant, changes: null }]);
  const url = new URL(`/portal/enter?token=${token}`, at).href;
  return { url, tenant, read_only, expires_at: isoTime(expiresAt) };
}

const postPortalLink = createRoute({
  method: "post",
  path: "/v1/portal-links",
  tags: ["Portal"],
  summary: "Create a portal link",
  description:
    "A link to the portal for a customer, who needs no key: it gives access to one tenant to whoever opens it first.",
  middleware: [requires("admin"), jsonBody()],
  request: { body: jsonRequest(newPortalLink) },
  responses: {
    201: jsonAnswer(portalLink, "The link, which opens the tenant's portal once."),
    ...problemResponses(400, 401, 403, 413, 415, 422),
  },
});
