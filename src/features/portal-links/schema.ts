/** Portal links as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { appearanceFields, rulesShape } from "../../core/portal-access.ts";
import { isHttpsUrl } from "../../core/portal-branding.ts";
import { zodFieldsOf, zodOf } from "../../core/zod-of.ts";
import { documented, strict, tenantName, time, trueOrFalse, wholeNumberFrom } from "../parameters.ts";

/** How long a link can be opened where it does not say. */
export const HOUR_S = 3600;
const RETURN_EXPECTED = "expected an https URL of at most 2000 characters, or null";

export const newPortalLink = strict({
  tenant: tenantName,
  expires_in_s: wholeNumberFrom(60, 7 * 24 * HOUR_S, " of seconds")
    .default(HOUR_S)
    .describe("For how many seconds the link can be opened; an hour by default."),
  read_only: trueOrFalse
    .default(false)
    .describe("Whether the visitor can only read, regardless of `access`."),
  access: zodOf(rulesShape)
    .nullish()
    .describe(
      "The visitor's rights and limits, as far as they are narrower than `portal` of the tenant's settings. A right that is not " +
        "given is as in the settings.",
    ),
  ...zodFieldsOf(appearanceFields),
  return_url: z
    .string(RETURN_EXPECTED)
    .refine(isHttpsUrl, RETURN_EXPECTED)
    .nullish()
    .describe("A page of yours (https) that each page of the portal links back to."),
}).openapi("NewPortalLink");

export const portalLink = documented("PortalLink", {
  url: z.string(),
  tenant: z.string(),
  read_only: z.boolean(),
  expires_at: time.describe("Until when the link can be opened."),
});

export type PortalLink = z.infer<typeof portalLink>;

export type NewPortalLink = z.input<typeof newPortalLink>;
