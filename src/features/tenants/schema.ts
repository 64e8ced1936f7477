/** A tenant's settings, as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { tenantPortalShape } from "../../core/portal-access.ts";
import { brandShape } from "../../core/portal-branding.ts";
import { zodOf } from "../../core/zod-of.ts";
import { documented, strict, textField, time, trueOrFalse } from "../parameters.ts";
import { retentionDaysField } from "../retention/field.ts";

export const contactEmail = textField(
  "a mail address of at most 254 characters, such as ops@example.com, or null",
  { max: 254, pattern: /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}$/ },
)
  .nullable()
  .openapi({
    example: "ops@acme.example",
    description: "The addressee of mails about the tenant's own destinations; null: no mails are sent.",
  });

const payloadFree = trueOrFalse.describe(
  "With true, the content of an event is erased once all of its deliveries have been delivered.",
);

const functions = trueOrFalse.describe(
  "With false, no transformation in code runs for the tenant, from now on: its deliveries wait. Results that are stored are sent.",
);

const portal = zodOf(tenantPortalShape)
  .openapi("TenantPortal")
  .nullable()
  .describe(
    "What visitors of its portal may do and up to which limits, and its language and theme; replaced as a whole. Null: " +
      "nothing is restricted.",
  );

const branding = zodOf(brandShape)
  .openapi("PortalBranding")
  .nullable()
  .describe("The name, logo and colour of its portal; replaced as a whole. Null: those of the deployment.");

export const tenantChange = strict({
  contact_email: contactEmail.optional(),
  retention_days: retentionDaysField.optional(),
  payload_free: payloadFree.optional(),
  functions: functions.optional(),
  portal: portal.optional(),
  branding: branding.optional(),
}).openapi("TenantChange");

export const tenantSchema = documented("Tenant", {
  tenant: z.string().openapi({ example: "acme" }),
  contact_email: contactEmail,
  retention_days: retentionDaysField,
  payload_free: payloadFree,
  functions,
  portal,
  branding,
  updated_at: time.nullable().describe("Null while nothing has been set for the tenant."),
});

/** A name that no tenant can have is the handlers' 404. */
export const tenantParam = z.object({
  tenant: z.string().openapi({ description: "The tenant's name.", example: "acme" }),
});

export type TenantChange = z.infer<typeof tenantChange>;
export type TenantView = z.infer<typeof tenantSchema>;
