/** The audit trail: who has changed what, from which value to which, with filters, and as a file. */
import type { FC } from "hono/jsx";
import { ok } from "../../../core/result.ts";
import { type AuditEntryView, auditQuery, exportQuery } from "../../../features/audit/schema.ts";
import { entryNumber, exportAuditEntries, getAuditEntries } from "../../../features/audit/service.ts";
import { pageFrom } from "../../../features/parameters.ts";
import { linesOf } from "../../../http/ndjson.ts";
import { idPatterns } from "../../../ids.ts";
import { FieldForm, type FormState, formState, Inputs } from "../../ui/fields.tsx";
import { auditFields } from "../../ui/form-fields.ts";
import { addressOf, type Query, textIn, utcIn } from "../../ui/format.ts";
import { Ago, Pager, Top } from "../../ui/parts.tsx";
import { capitalized } from "../../ui/status-text.ts";
import { showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { callWith, type Dashboard, type DashboardContext, mayCall } from "../session.ts";
import { actorText } from "../view.tsx";

const PATH = "/dashboard/audit";
const PAGE_SIZE = "50";

export function registerAuditPages(app: Dashboard): void {
  app.get(PATH, async (c) => {
    if (!mayCall(c, getAuditEntries)) return showReadOnly(c);
    const cursor = c.req.query("cursor");
    const asked = { ...filterOf(c), limit: PAGE_SIZE, ...(cursor && { cursor }) };
    const listed = await callWith(c, auditQuery, asked, async (caller, { cursor: before, ...query }) => {
      const found = await getAuditEntries(caller, { ...query, before, limit: query.limit + 1 });
      if (found.kind !== "ok") return found;
      return ok(pageFrom(found.value, query.limit, ({ id }) => entryNumber(id)));
    });
    const refused = listed.kind === "ok" ? undefined : listed;
    const { data, next_cursor: next } = listed.kind === "ok" ? listed.value : NOTHING;
    const { tenant } = c.get("visitor");
    const query = queryOf(c);
    const where = tenant === undefined ? "all tenants, and in the deployment itself" : `the tenant ${tenant}`;
    return showPage(
      c,
      { title: "Audit", place: "audit", refused },
      <>
        <Top title="Audit" lede={`Who changed what, newest first: in ${where}.`} />
        <Filter form={formState(c.req.query(), auditFields, refused)} query={query} />
        <section aria-label="Changes">
          {data.length === 0 && <p class="empty">{emptyText(cursor === undefined, query)}</p>}
          {data.map((entry) => (
            <Change entry={entry} showTenant={tenant === undefined} />
          ))}
          <Pager
            path={PATH}
            query={query}
            next={next !== null && { cursor: next }}
            isFirst={cursor === undefined}
            isLog
          />
        </section>
      </>,
    );
  });

  app.get(`${PATH}/export`, async (c) => {
    if (!mayCall(c, getAuditEntries)) return showReadOnly(c);
    const exported = await callWith(c, exportQuery, filterOf(c), exportAuditEntries);
    return exported.kind === "ok" ? linesOf(exported.value, "audit.ndjson") : showRefusal(c, exported, PATH);
  });
}

const NOTHING = { data: [], next_cursor: null };

/** The filter of the page's form, as the API takes it. */
function filterOf(c: DashboardContext) {
  const query = c.req.query();
  return {
    tenant: c.get("visitor").tenant,
    subject: textIn(query, "subject"),
    since: utcIn(query, "since"),
    until: utcIn(query, "until"),
  };
}

/** The filter as the page's own address has it; the tenant is remembered. */
function queryOf(c: DashboardContext): Query {
  const { subject, since, until } = c.req.query();
  return { subject, since, until };
}

const isFiltered = (query: Query) => Object.values(query).some(Boolean);

const Filter: FC<{ form: FormState; query: Query }> = ({ form, query }) => (
  <FieldForm
    method="get"
    form={form}
    action={PATH}
    aria-label="Filters"
    submit="Filter"
    button=""
    aside={
      <>
        {isFiltered(query) && <a href={PATH}>Clear</a>}
        <a href={addressOf(`${PATH}/export`, query)} download="audit.ndjson">
          Export as NDJSON
        </a>
      </>
    }
  >
    <div class="fields">
      <Inputs names={["subject", "since", "until"]} />
    </div>
  </FieldForm>
);

function emptyText(isFirst: boolean, query: Query): string {
  if (!isFirst) return "No older changes.";
  return isFiltered(query)
    ? "No changes match. Widen the time, or clear the filter."
    : "No changes yet. Whatever is created or changed appears here.";
}

const Change: FC<{ entry: AuditEntryView; showTenant: boolean }> = ({ entry, showTenant }) => {
  const { action, subject, actor, tenant, changes } = entry;
  const path = pathOf(subject);
  return (
    <article class="delivery" aria-label={`${actionText(action)}: ${subject}`}>
      <div class="head">
        <p class="break">
          <strong>{actionText(action)}</strong>{" "}
          {path === undefined ? <code>{subject}</code> : <a href={path}>{subject}</a>}
        </p>
        <span class="soft small">
          <Ago at={entry.at} />
        </span>
      </div>
      <p class="small soft break">
        {`${actorText(actor)}${showTenant ? (tenant === null ? "; of the deployment" : `; of tenant ${tenant}`) : ""}`}
      </p>
      {changes !== null && (
        <ul class="small changes">
          {Object.entries(changes).map(([field, { from, to }]) => (
            <li class="break">
              <span class="soft">{`${field.replaceAll("_", " ")}: `}</span>
              <del>{valueText(from)}</del>
              <span class="hidden">, now </span>
              <ins>{` → ${valueText(to)}`}</ins>
            </li>
          ))}
        </ul>
      )}
    </article>
  );
};

/** `destination.secret_rotated` as "Destination: secret rotated". */
function actionText(action: string): string {
  const [what = "", done = ""] = action.split(".");
  return capitalized(`${what}: ${done}`.replaceAll("_", " "));
}

/** The page of the changed object, if it has one. */
function pathOf(subject: string): string | undefined {
  return idPatterns.destination.test(subject) ? `/dashboard/destinations/${subject}` : undefined;
}

function valueText(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  return typeof value === "string" ? value : JSON.stringify(value);
}
