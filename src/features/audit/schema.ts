/** The audit trail as the API takes and shows it. */
import { z } from "@hono/zod-openapi";
import { actorKinds, auditActions } from "../../core/audit.ts";
import {
  cursorParam,
  documented,
  limitParam,
  strict,
  tenantName,
  textField,
  time,
  timeRange,
} from "../parameters.ts";

const rangeQuery = {
  tenant: tenantName.optional().describe("Only changes of this tenant."),
  subject: textField("the id of what was changed, at most 200 characters", { max: 200 })
    .optional()
    .describe("Only changes of this destination, key, replay and so on."),
  ...timeRange("changes"),
};

export const actorSchema = z.object({
  kind: z.enum(actorKinds),
  key: z
    .string()
    .nullable()
    .describe("The API key, or the one that the session or link came from; null for `ADMIN_KEY`."),
  session: z.string().nullable().describe("The dashboard session, or the portal link."),
  person: z.string().nullable().openapi({
    description:
      "The person who had signed in by Cloudflare Access, by email, or the service token; null for others.",
    example: null,
  }),
});

export const entrySchema = documented("AuditEntry", {
  id: z.string().openapi({ example: "aud_hzxlw3p6o0" }),
  at: time,
  tenant: z.string().nullable().describe("Null for changes of the deployment."),
  actor: actorSchema.extend({
    approver: actorSchema.optional().describe("The person who approved an agent's action; absent otherwise."),
  }),
  action: z.enum(auditActions),
  subject: z.string().describe("The id of the changed object."),
  changes: z
    .record(z.string(), z.object({ from: z.unknown(), to: z.unknown() }))
    .nullable()
    .describe("The fields that were changed, without secrets; null if the action says everything."),
});

/** Parameters of a list of entries. */
export const auditQuery = strict({
  ...rangeQuery,
  limit: limitParam,
  cursor: cursorParam(z.int().positive()),
});
/** Parameters of an export. */
export const exportQuery = strict(rangeQuery);

export type AuditEntryView = z.infer<typeof entrySchema>;
