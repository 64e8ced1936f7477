/** The routes of the audit trail. */
import { createRoute, z } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { linesOf } from "../../http/ndjson.ts";
import { answerOf, problemResponses } from "../../http/problems.ts";
import { answers, routeTo, serve } from "../../http/routes.ts";
import { pageFrom, pageOf } from "../parameters.ts";
import { auditQuery, entrySchema, exportQuery } from "./schema.ts";
import { entryNumber, exportAuditEntries, getAuditEntries, MOST_EXPORTED } from "./service.ts";

export function registerAudit(api: Api): void {
  serve(api, "get", "/v1/audit", getAuditEntries, {
    tags,
    summary: "List changes",
    description: "The newest first. Entries are stored for `AUDIT_DAYS`.",
    query: auditQuery,
    input: ({ query: { cursor: before, limit, ...range } }) => ({ ...range, before, limit: limit + 1 }),
    view: (entries, _, { query }) => pageFrom(entries, query.limit, ({ id }) => entryNumber(id)),
    responses: answers(200, pageOf(entrySchema), "A page of changes.", 422),
  });

  api.openapi(exportEntries, async (c) => {
    const exported = await exportAuditEntries(callerIn(c), c.req.valid("query"));
    // The types of routes know no stream of this content type.
    return exported.kind === "ok" ? (linesOf(exported.value, "audit.ndjson") as never) : answerOf(exported);
  });
}

const tags = ["Audit"];

const EXAMPLE = `{"id":"aud_1bm8hcd2k00","at":"2026-11-21T09:00:00.000Z","tenant":"acme","actor":{"kind":"admin_key","key":null,"session":null,"person":null},"action":"destination.paused","subject":"dst_8m2x0f7q9a4r6t1v3w5y","changes":null}
`;

const exportEntries = createRoute({
  ...routeTo("get", "/v1/audit/export", exportAuditEntries),
  tags,
  summary: "Export changes",
  description: `One entry a line, the newest first, at most ${MOST_EXPORTED.toLocaleString("en")}.`,
  request: { query: exportQuery },
  responses: {
    200: {
      description: "The changes, one JSON object a line.",
      content: { "application/x-ndjson": { schema: z.string(), example: EXAMPLE } },
    },
    ...problemResponses(401, 403, 422, 429),
  },
});
