/** Reads the audit trail: a page, or everything at once. trail.ts writes it. */
import type { Actor } from "../../core/audit.ts";
import type { Principal } from "../../core/principal.ts";
import { invalidFields, ok } from "../../core/result.ts";
import { isoTime } from "../../time.ts";
import { operatorFields } from "../destinations/fields.ts";
import { rangeErrors } from "../parameters.ts";
import { type Caller, tenantService } from "../service.ts";
import { type AuditEntryView, entrySchema } from "./schema.ts";
import { type AuditEntry, type AuditFilter, listAuditEntries } from "./sql.ts";

const permission = { scope: "admin" } as const;

type Range = Omit<AuditFilter, "before" | "limit">;

function refuseRange({ since, until }: Range) {
  const errors = rangeErrors(since, until);
  return errors.length > 0 ? invalidFields(errors) : undefined;
}

/** Entries, the newest first, at most `limit`. */
export const getAuditEntries = tenantService(permission, async (call, page: AuditFilter) => {
  const refusal = refuseRange(page);
  if (refusal) return refusal;
  return ok((await listAuditEntries(call.services.db, page)).map(viewFor(call.principal)));
});

const EXPORTED_AT_ONCE = 500;
/** Pages of one export: a Worker has 1,000 queries. */
const MOST_PAGES = 200;

export const MOST_EXPORTED = EXPORTED_AT_ONCE * MOST_PAGES;

/** All entries, the newest first, page by page as they are read. The first page is read before the result. */
export const exportAuditEntries = tenantService(permission, async (call, range: Range) => {
  const refusal = refuseRange(range);
  if (refusal) return refusal;
  const pages = exportedPages(call, range);
  const first = await pages.next();
  return ok(
    (async function* () {
      if (first.value !== undefined) yield first.value;
      yield* pages;
    })(),
  );
});

async function* exportedPages(
  { services: { db }, principal }: Caller,
  range: Range,
): AsyncGenerator<readonly AuditEntryView[], undefined> {
  let before: number | undefined;
  for (let page = 0; page < MOST_PAGES; page++) {
    const rows = await listAuditEntries(db, { ...range, before, limit: EXPORTED_AT_ONCE });
    yield rows.map(viewFor(principal));
    if (rows.length < EXPORTED_AT_ONCE) return;
    before = rows.at(-1)?.id;
  }
}

const PREFIX = "aud_";

export function entryNumber(id: string): number {
  return Number.parseInt(id.slice(PREFIX.length), 36);
}

const NOBODY = { kind: "admin_key", key: null, session: null, person: null } as const;

/** A principal that is bound to a tenant does not see an operator's changes of operator-only fields. */
function viewFor({ tenant }: Principal): (row: AuditEntry) => AuditEntryView {
  const isVisible = ([name]: readonly [string, unknown]) => !operatorFields.some((own) => own === name);
  return (row) => {
    const view = entryView(row);
    if (tenant === undefined || view.changes === null || Array.isArray(view.changes)) return view;
    return { ...view, changes: Object.fromEntries(Object.entries(view.changes).filter(isVisible)) };
  };
}

function shownActor({ approver, ...actor }: Actor) {
  return { person: null, ...actor, ...(approver && { approver: { person: null, ...approver } }) };
}

/** An entry as the API shows it. An actor that was edited into something else is shown as `ADMIN_KEY`. */
function entryView(row: AuditEntry): AuditEntryView {
  const { actor, changes } = entrySchema.shape;
  return {
    id: PREFIX + row.id.toString(36),
    at: isoTime(row.at),
    tenant: row.tenant,
    actor: (row.actor && actor.safeParse(shownActor(row.actor)).data) ?? NOBODY,
    action: row.action,
    subject: row.subject,
    changes: changes.safeParse(row.changes).data ?? null,
  };
}
