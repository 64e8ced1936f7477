/**
 * Links into the dashboard for a customer: signed, for one tenant, valid for a while and good for one
 * session. Whoever has the link needs no key; it is made by the operator's own product for a signed-in user.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { isoTime } from "../iso-time.ts";
import { NOT_YOUR_TENANT, refuseScopes, requires, tenantFor } from "./auth.ts";
import type { Api } from "./context.ts";
import { jsonBody } from "./json-body.ts";
import { tenantName } from "./names.ts";
import { problem, problemResponses } from "./problems.ts";
import { jsonAnswer, jsonRequest } from "./route-parts.ts";
import { newTokenId, signToken } from "./signed-token.ts";
import { strict } from "./strict.ts";

const HOUR_S = 3600;
const EXPIRY_EXPECTED = "expected a whole number of seconds from 60 to 604800";

const newPortalLink = strict({
  tenant: tenantName,
  expires_in_s: z
    .int({ error: EXPIRY_EXPECTED })
    .min(60, { error: EXPIRY_EXPECTED })
    .max(7 * 24 * HOUR_S, { error: EXPIRY_EXPECTED })
    .default(HOUR_S)
    .openapi({ description: "How long the link may be opened; an hour by default." }),
  read_only: z
    .boolean({ error: "expected true or false" })
    .default(false)
    .openapi({ description: "Whether the visitor may look and change nothing." }),
}).openapi("NewPortalLink");

const portalLink = z
  .object({ url: z.string(), tenant: z.string(), read_only: z.boolean(), expires_at: z.iso.datetime() })
  .openapi("PortalLink");

const postPortalLink = createRoute({
  method: "post",
  path: "/v1/portal-links",
  tags: ["Portal"],
  summary: "Make a link into the dashboard",
  description: "For a customer of yours, who needs no key: it shows one tenant, to whoever opens it first.",
  middleware: [requires("admin"), jsonBody()],
  request: { body: jsonRequest(newPortalLink) },
  responses: {
    201: jsonAnswer(portalLink, "The link, which opens the dashboard of the tenant once."),
    ...problemResponses(400, 401, 403, 413, 415, 422),
  },
});

export function registerPortalLinks(api: Api): void {
  api.openapi(postPortalLink, async (c) => {
    const { config, now } = c.get("services");
    const { tenant: named, expires_in_s, read_only } = c.req.valid("json");
    const principal = c.get("principal");
    const tenant = tenantFor(principal, named);
    if (tenant === undefined) return problem(403, NOT_YOUR_TENANT);
    const expiresAt = Math.floor(now() / 1000 + expires_in_s) * 1000;
    const scopes = read_only ? (["read"] as const) : (["read", "admin"] as const);
    const refusal = refuseScopes(principal, scopes, "read_only");
    if (refusal) return refusal;
    const token = await signToken(config, "portal", {
      id: newTokenId(),
      keyId: principal.key ?? null,
      tenant,
      scopes,
      expiresAt,
    });
    const url = new URL(`/dashboard/enter?token=${token}`, c.req.url).href;
    return c.json({ url, tenant, read_only, expires_at: isoTime(expiresAt) }, 201);
  });
}
