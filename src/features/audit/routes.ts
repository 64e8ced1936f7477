/**
 * The audit trail: who has changed what, when, and from which key, session or portal link. A handler says what it has
 * changed; the entry is written before the caller gets the answer. The trail is listed, and exported as NDJSON.
 *
 * The entry comes after the change. Where it cannot be stored, its log line has all of it: a change that is made must
 * not be answered as if it were not.
 */

import { createRoute, z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { stream } from "hono/streaming";
import { actorKinds, auditActions, type Changes } from "../../core/audit.ts";
import { refuseTenant } from "../../core/principal.ts";
import { requires } from "../../http/auth.ts";
import type { Api, ApiContext, ApiEnv } from "../../http/context.ts";
import {
  cursorParam,
  jsonAnswer,
  limitParam,
  pageFrom,
  pageOf,
  rangeErrors,
  strict,
  tenantName,
  timeParam,
} from "../../http/parameters.ts";
import { answerOf, invalid, problemResponses } from "../../http/problems.ts";
import type { Services } from "../../services.ts";
import { isoTime } from "../../time.ts";
import { type AuditEntry, type AuditFilter, listAuditEntries, type NewAuditEntry } from "./sql.ts";
import { record } from "./trail.ts";

/** Middleware: stores what the handler has said that it changed, unless it refused the request. */
export const recordsChanges: MiddlewareHandler<ApiEnv> = async (c, next) => {
  await next();
  const entries = c.get("changes");
  if (!c.res.ok || entries === undefined) return;
  await record(c.get("services"), c.get("principal"), entries);
};

/** Says what a request has changed: one entry of the trail. */
export function changed(
  c: ApiContext,
  action: NewAuditEntry["action"],
  subject: Readonly<{ id: string; tenant: string | null }>,
  changes: Changes | null = null,
): void {
  const entry = { action, subject: subject.id, tenant: subject.tenant, changes };
  c.set("changes", [...(c.get("changes") ?? []), entry]);
}

export function registerAudit(api: Api): void {
  api.openapi(getEntries, async (c) => {
    const { limit, cursor: before, tenant: named, ...range } = c.req.valid("query");
    const { tenant = named } = c.get("principal");
    const refusal = refuseTenant(c.get("principal"), named);
    if (refusal) return answerOf(refusal);
    const errors = rangeErrors(range.since, range.until);
    if (errors.length > 0) return invalid(errors);
    const filter = { ...filterOf(range), tenant, before, limit: limit + 1 };
    const rows = await listAuditEntries(c.get("services").db, filter);
    return c.json(
      pageFrom(rows.map(entryView), limit, ({ id }) => numberOf(id)),
      200,
    );
  });

  api.openapi(exportEntries, async (c) => {
    const { tenant: named, ...range } = c.req.valid("query");
    const { tenant = named } = c.get("principal");
    const refusal = refuseTenant(c.get("principal"), named);
    if (refusal) return answerOf(refusal);
    const errors = rangeErrors(range.since, range.until);
    if (errors.length > 0) return invalid(errors);
    const pages = exportedPages(c.get("services"), { ...filterOf(range), tenant });
    // Before the answer begins: afterwards a failure could not be told.
    const first = await pages.next();
    c.header("content-disposition", 'attachment; filename="audit.ndjson"');
    c.header("content-type", "application/x-ndjson");
    // The types of routes know no stream of this content type.
    return stream(c, async (out) => {
      if (first.value !== undefined) await out.write(first.value);
      for await (const page of pages) await out.write(page);
    }) as never;
  });
}

const EXPORTED_AT_ONCE = 500;
/** Pages of one export: a Worker has 1,000 queries. */
const MOST_PAGES = 200;

/** The entries as NDJSON, the newest first; page by page, as fast as the caller reads. */
async function* exportedPages({ db }: Services, filter: Omit<AuditFilter, "before" | "limit">) {
  let before: number | undefined;
  for (let page = 0; page < MOST_PAGES; page++) {
    const rows = await listAuditEntries(db, { ...filter, before, limit: EXPORTED_AT_ONCE });
    yield rows.map((row) => `${JSON.stringify(entryView(row))}\n`).join("");
    if (rows.length < EXPORTED_AT_ONCE) return;
    before = rows.at(-1)?.id;
  }
}

type Range = Readonly<{
  subject?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
}>;

function filterOf({ subject, since, until }: Range) {
  return { subject, since, until };
}

const SUBJECT_EXPECTED = "expected the id of what was changed, at most 200 characters";

const rangeQuery = {
  tenant: tenantName.optional().openapi({ description: "Only changes of this tenant." }),
  subject: z
    .string()
    .max(200, { error: SUBJECT_EXPECTED })
    .optional()
    .openapi({ description: "Only changes of this destination, key, replay and so on." }),
  since: timeParam.optional().openapi({ description: "Only changes at this time or later." }),
  until: timeParam.optional().openapi({ description: "Only changes before this time; it is after `since`." }),
};

const time = z.iso.datetime();

const entrySchema = z
  .object({
    id: z.string().openapi({ example: "aud_hzxlw3p6o0" }),
    at: time,
    tenant: z.string().nullable().openapi({ description: "Null for changes of the deployment." }),
    actor: z.object({
      kind: z.enum(actorKinds),
      key: z.string().nullable().openapi({
        description: "The API key, or the one that the session or link came from; null for `ADMIN_KEY`.",
      }),
      session: z.string().nullable().openapi({
        description: "The session at the dashboard, or the portal link.",
      }),
    }),
    action: z.enum(auditActions),
    subject: z.string().openapi({ description: "The id of what was changed." }),
    changes: z
      .record(z.string(), z.object({ from: z.unknown(), to: z.unknown() }))
      .nullable()
      .openapi({
        description: "The fields that were changed, without secrets; null where the action says it all.",
      }),
  })
  .openapi("AuditEntry");

const common = { method: "get" as const, tags: ["Audit"], middleware: [requires("admin")] };

const getEntries = createRoute({
  ...common,
  path: "/v1/audit",
  summary: "List changes",
  description: "The newest first. Kept for `AUDIT_DAYS`.",
  request: {
    query: strict({ ...rangeQuery, limit: limitParam, cursor: cursorParam(z.int().positive()) }),
  },
  responses: {
    200: jsonAnswer(pageOf(entrySchema), "A page of changes."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const EXAMPLE = `{"id":"aud_1bm8hcd2k00","at":"2026-11-21T09:00:00.000Z","tenant":"acme","actor":{"kind":"admin_key","key":null,"session":null},"action":"destination.paused","subject":"dst_8m2x0f7q9a4r6t1v3w5y","changes":null}
`;

const exportEntries = createRoute({
  ...common,
  path: "/v1/audit/export",
  summary: "Export changes",
  description: `One entry a line, the newest first, at most ${(EXPORTED_AT_ONCE * MOST_PAGES).toLocaleString("en")}.`,
  request: { query: strict(rangeQuery) },
  responses: {
    200: {
      description: "The changes, one JSON object a line.",
      content: { "application/x-ndjson": { schema: z.string(), example: EXAMPLE } },
    },
    ...problemResponses(401, 403, 422, 429),
  },
});

const PREFIX = "aud_";

function numberOf(id: string): number {
  return Number.parseInt(id.slice(PREFIX.length), 36);
}

/** An entry as the API shows it. An actor that was edited into something else is shown as `ADMIN_KEY`. */
export function entryView(row: AuditEntry): z.infer<typeof entrySchema> {
  const { actor, changes } = entrySchema.shape;
  return {
    id: PREFIX + row.id.toString(36),
    at: isoTime(row.at),
    tenant: row.tenant,
    actor: actor.safeParse(row.actor).data ?? { kind: "admin_key", key: null, session: null },
    action: row.action,
    subject: row.subject,
    changes: changes.safeParse(row.changes).data ?? null,
  };
}
