/** The route of portal links. */
import { createRoute } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answers, jsonRequest, reply, routeTo } from "../../http/routes.ts";
import { newPortalLink, portalLink } from "./schema.ts";
import { createPortalLink } from "./service.ts";

export function registerPortalLinks(api: Api): void {
  api.openapi(postPortalLink, async (c) => {
    const input = { options: c.req.valid("json"), requestUrl: c.req.url };
    return reply(c, await createPortalLink(callerIn(c), input), 201);
  });
}

const postPortalLink = createRoute({
  ...routeTo("post", "/v1/portal-links", createPortalLink, jsonBody()),
  tags: ["Portal"],
  summary: "Create a portal link",
  description:
    "A link to the portal for a customer, who needs no key: it gives access to one tenant to whoever opens it first.",
  request: { body: jsonRequest(newPortalLink) },
  responses: answers(201, portalLink, "The link, which opens the tenant's portal once.", "body", 409),
});
