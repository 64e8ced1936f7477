/**
 * Access to the portal: links that open the portal of an application's tenant. The token of an access is that of its
 * link, so logging out by it ends the session that the link has opened, or keeps it from opening one.
 */
import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import type { PortalRules } from "../../core/portal-access.ts";
import { newPortalLink } from "../../features/portal-links/schema.ts";
import { createPortalLink } from "../../features/portal-links/service.ts";
import { endAccess } from "../../features/sessions/sessions.ts";
import { ANONYMOUS_REFUSAL } from "../../rate-limits.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf, problem } from "../problems.ts";
import { overAnonymousLimit } from "../rate-limit.ts";
import { applicationFor, applicationInput } from "./applications.ts";
import { bodyOf, granted, optionalBoolean, refuseFields, unsupported, validated } from "./shapes.ts";

/** Registered before authentication: it takes the token of an access, which is not an API key. */
export function registerLogout(app: Hono<ApiEnv>): void {
  app.post("/api/v1/auth/logout", async (c) => {
    const services = c.get("services");
    const given = /^Bearer +([^\s]+) *$/i.exec(c.req.header("authorization") ?? "")?.[1];
    const ended = given !== undefined && (await endAccess(services, given));
    if (ended === "limited") return answerOf(ANONYMOUS_REFUSAL);
    if (ended) return c.body(null, 204);
    return (await overAnonymousLimit(services, c.req.raw)) ?? problem(401, NOT_AN_ACCESS);
  });
}

const NOT_AN_ACCESS =
  "Authorization has no token of a portal access that is valid; API keys are not logged out";

export function registerPortalAccess(app: Hono<ApiEnv>): void {
  for (const path of ["app-portal-access", "dashboard-access"])
    app.post(`/api/v1/auth/${path}/:app`, requires("admin"), jsonBody({ mayBeEmpty: true }), openAccess);
}

async function openAccess(c: ApiContext): Promise<Response> {
  const input = await bodyOf(c, accessInput);
  const { readOnly, capabilities, featureFlags, sessionId, expiry } = input;
  refuseFields([
    featureFlags?.length && unsupported("featureFlags", "none"),
    sessionId != null && unsupported("sessionId", "none: an access is logged out by its token"),
  ]);
  const body = {
    expires_in_s: expiry ?? WEEK_S,
    read_only: readOnly === true,
    access: capabilities == null ? null : accessWith(capabilities),
  };
  const names = { expires_in_s: "expiry", read_only: "readOnly" };
  // Before the application that comes along: what is refused creates nothing.
  const options = validated(accessOptions, body, names);
  const { id: tenant } = await applicationFor(c, input);
  const made = await createPortalLink(callerIn(c), {
    options: { ...options, tenant },
    requestUrl: c.req.url,
  });
  const { url } = granted(made, names);
  return c.json({ url, token: new URL(url).searchParams.get("token") }, 200, { "cache-control": "no-store" });
}

const WEEK_S = 7 * 24 * 3600;

const accessOptions = newPortalLink.omit({ tenant: true });

const CAPABILITIES = [
  "ViewBase",
  "ViewEndpointSecret",
  "ManageEndpointSecret",
  "ManageTransformations",
  "CreateAttempts",
  "ManageEndpoint",
] as const;

const CAPABILITIES_EXPECTED = `expected a list of ${CAPABILITIES.join(", ")}`;

const accessInput = z.object({
  application: applicationInput.nullish(),
  readOnly: optionalBoolean,
  capabilities: z.array(z.enum(CAPABILITIES, CAPABILITIES_EXPECTED), CAPABILITIES_EXPECTED).nullish(),
  featureFlags: z.array(z.unknown(), "expected a list").nullish(),
  sessionId: z.unknown().optional(),
  expiry: z.unknown().optional(),
});

/** The rights of a visitor with these. Secrets are shown once. */
function accessWith(capabilities: readonly (typeof CAPABILITIES)[number][]): PortalRules {
  const mayAttempt = capabilities.includes("CreateAttempts");
  const mayManage = capabilities.includes("ManageEndpoint");
  return {
    may_edit_endpoints: mayManage,
    // The right to manage an endpoint includes its secrets (https://api.svix.com/docs#tag/Authentication).
    may_transform: capabilities.includes("ManageTransformations"),
    may_rotate: mayManage || capabilities.includes("ManageEndpointSecret"),
    may_resend: mayAttempt,
    may_test: mayAttempt,
    may_poll: mayManage,
  };
}
