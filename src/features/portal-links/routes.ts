/** The route of portal links. */
import type { Api } from "../../http/context.ts";
import { answers, serve } from "../../http/routes.ts";
import { newPortalLink, portalLink } from "./schema.ts";
import { createPortalLink } from "./service.ts";

export function registerPortalLinks(api: Api): void {
  serve(api, "post", "/v1/portal-links", createPortalLink, {
    tags: ["Portal"],
    summary: "Create a portal link",
    description:
      "A link to the portal for a customer, who needs no key: it opens one tenant's portal, for whoever opens it first.",
    body: newPortalLink,
    input: ({ json: options, url: requestUrl }) => ({ options, requestUrl }),
    responses: answers(201, portalLink, "The link, which opens the tenant's portal once.", "body", 409),
  });
}
