/** The route of portal links. */
import { createRoute } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { jsonAnswer, jsonRequest } from "../../http/parameters.ts";
import { answerOf, problemResponses } from "../../http/problems.ts";
import { routeTo } from "../../http/routes.ts";
import { newPortalLink, portalLink } from "./schema.ts";
import { createPortalLink } from "./service.ts";

export function registerPortalLinks(api: Api): void {
  api.openapi(postPortalLink, async (c) => {
    const input = { options: c.req.valid("json"), requestUrl: c.req.url };
    const made = await createPortalLink(callerIn(c), input);
    return made.kind === "ok" ? c.json(made.value, 201) : answerOf(made);
  });
}

const postPortalLink = createRoute({
  ...routeTo("post", "/v1/portal-links", createPortalLink, jsonBody()),
  tags: ["Portal"],
  summary: "Create a portal link",
  description:
    "A link to the portal for a customer, who needs no key: it gives access to one tenant to whoever opens it first.",
  request: { body: jsonRequest(newPortalLink) },
  responses: {
    201: jsonAnswer(portalLink, "The link, which opens the tenant's portal once."),
    ...problemResponses(400, 401, 403, 409, 413, 415, 422),
  },
});
