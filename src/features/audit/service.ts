/** Reads the audit trail: a page, or everything at once. What writes it is in trail.ts. */
import type { Actor } from "../../core/audit.ts";
import { type Principal, refuseTenant } from "../../core/principal.ts";
import { invalidFields, ok } from "../../core/result.ts";
import { isoTime } from "../../time.ts";
import { operatorFields } from "../destinations/fields.ts";
import { rangeErrors } from "../parameters.ts";
import { type Caller, service } from "../service.ts";
import { type AuditEntryView, entrySchema } from "./schema.ts";
import { type AuditEntry, type AuditFilter, listAuditEntries } from "./sql.ts";

const permission = { scope: "admin" } as const;

type Range = Readonly<{
  tenant?: string | undefined;
  subject?: string | undefined;
  /** Epoch ms. */
  since?: number | undefined;
  until?: number | undefined;
}>;

type Page = Range & Pick<AuditFilter, "before" | "limit">;

function refuseRange({ principal }: Caller, { tenant, since, until }: Range) {
  const refusal = refuseTenant(principal, tenant);
  if (refusal) return refusal;
  const errors = rangeErrors(since, until);
  return errors.length > 0 ? invalidFields(errors) : undefined;
}

function filterOf({ principal }: Caller, { tenant: named, subject, since, until }: Range) {
  const { tenant = named } = principal;
  return { tenant, subject, since, until };
}

/** Entries, the newest first, at most `limit`. */
export const getAuditEntries = service(permission, async (call, page: Page) => {
  const refusal = refuseRange(call, page);
  if (refusal) return refusal;
  const { before, limit } = page;
  const filter = { ...filterOf(call, page), before, limit };
  return ok((await listAuditEntries(call.services.db, filter)).map(viewFor(call.principal)));
});

const EXPORTED_AT_ONCE = 500;
/** Pages of one export: a Worker has 1,000 queries. */
const MOST_PAGES = 200;

/** The most entries of one export. */
export const MOST_EXPORTED = EXPORTED_AT_ONCE * MOST_PAGES;

/** All entries, the newest first, page by page as they are read. The first page is read before the result. */
export const exportAuditEntries = service(permission, async (call, range: Range) => {
  const refusal = refuseRange(call, range);
  if (refusal) return refusal;
  const pages = exportedPages(call, filterOf(call, range));
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
  range: ReturnType<typeof filterOf>,
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

/** Who is bound to a tenant does not see what an operator has changed of the operator's own fields. */
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
