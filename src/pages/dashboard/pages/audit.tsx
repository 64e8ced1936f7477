/** The audit trail: who has changed what, from which value to which, with filters, and as a file. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { ok } from "../../../core/result.ts";
import { type AuditEntryView, auditQuery, exportQuery } from "../../../features/audit/schema.ts";
import { entryNumber, exportAuditEntries, getAuditEntries } from "../../../features/audit/service.ts";
import { pageFrom } from "../../../features/parameters.ts";
import { linesOf } from "../../../http/ndjson.ts";
import { idPatterns } from "../../../ids.ts";
import { FormNotice, type FormState, formState, TextField } from "../../ui/fields.tsx";
import { auditFields } from "../../ui/form-fields.ts";
import { textIn, utcIn } from "../../ui/format.ts";
import { Ago } from "../../ui/parts.tsx";
import { attemptWith, statusOfRefused } from "../../ui/services.ts";
import { capitalized } from "../../ui/status-text.ts";
import { showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { callerOnPage, type DashboardContext, type DashboardEnv, mayCall } from "../session.ts";

const PATH = "/dashboard/audit";
const PAGE_SIZE = "50";

export function registerAuditPages(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    if (!mayCall(c, getAuditEntries)) return showReadOnly(c);
    const cursor = c.req.query("cursor");
    const caller = callerOnPage(c);
    const asked = { ...filterOf(c), limit: PAGE_SIZE, ...(cursor && { cursor }) };
    const listed = await attemptWith(caller, auditQuery, asked, async ({ cursor: before, ...query }) => {
      const found = await getAuditEntries(caller, { ...query, before, limit: query.limit + 1 });
      if (found.kind !== "ok") return found;
      return ok(pageFrom(found.value, query.limit, ({ id }) => entryNumber(id)));
    });
    const refused = listed.kind === "ok" ? undefined : listed;
    const { tenant } = c.get("visitor");
    return showPage(
      c,
      { title: "Audit", place: "audit" },
      <Audit
        entries={listed.kind === "ok" ? listed.value.data : []}
        next={listed.kind === "ok" ? listed.value.next_cursor : null}
        isFirst={cursor === undefined}
        form={formState(c.req.query(), auditFields, refused)}
        query={queryOf(c)}
        tenant={tenant}
        now={c.get("services").now()}
      />,
      refused ? statusOfRefused(refused) : 200,
    );
  });

  app.get(`${PATH}/export`, async (c) => {
    if (!mayCall(c, getAuditEntries)) return showReadOnly(c);
    const caller = callerOnPage(c);
    const exported = await attemptWith(caller, exportQuery, filterOf(c), (range) =>
      exportAuditEntries(caller, range),
    );
    return exported.kind === "ok" ? linesOf(exported.value, "audit.ndjson") : showRefusal(c, exported, PATH);
  });
}

/** The filter of the page's form, as the API takes it. */
function filterOf(c: DashboardContext): Readonly<Record<string, string>> {
  const query = c.req.query();
  const { tenant } = c.get("visitor");
  const given = {
    tenant,
    subject: textIn(query, "subject"),
    since: utcIn(query, "since"),
    until: utcIn(query, "until"),
  };
  return Object.fromEntries(
    Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

/** The filter as the page's own address has it; the tenant is remembered. */
function queryOf(c: DashboardContext): Readonly<Record<string, string>> {
  const names = ["subject", "since", "until"];
  const query = Object.entries(c.req.query());
  return Object.fromEntries(query.filter(([name, value]) => names.includes(name) && value !== ""));
}

function at(query: Readonly<Record<string, string>>, path = PATH): string {
  const text = new URLSearchParams(query).toString();
  return text === "" ? path : `${path}?${text}`;
}

type Props = Readonly<{
  entries: readonly AuditEntryView[];
  next: string | null;
  isFirst: boolean;
  form: FormState;
  query: Readonly<Record<string, string>>;
  /** Whose changes are shown; all where it is undefined. */
  tenant: string | undefined;
  now: number;
}>;

const Audit: FC<Props> = ({ entries, next, isFirst, form, query, tenant, now }) => (
  <>
    <section>
      <h1>Audit</h1>
      <p class="lede break">
        {`Who changed what, newest first: ${tenant === undefined ? "in all tenants, and in the deployment itself" : `in the tenant ${tenant}`}.`}
      </p>
    </section>
    <form class="stack" method="get" action={PATH} aria-label="Filters">
      <FormNotice form={form} />
      <div class="fields">
        <TextField form={form} name="subject" maxlength={200} placeholder="dst_…" />
        <TextField form={form} name="since" type="datetime-local" />
        <TextField form={form} name="until" type="datetime-local" />
      </div>
      <div class="actions">
        <button type="submit">Filter</button>
        {Object.keys(query).length > 0 && <a href={PATH}>Clear</a>}
        <a href={at(query, `${PATH}/export`)} download="audit.ndjson">
          Export as NDJSON
        </a>
      </div>
    </form>
    <section aria-label="Changes">
      {entries.length === 0 ? (
        <p class="empty">{emptyText(isFirst, query)}</p>
      ) : (
        entries.map((entry) => <Change entry={entry} showTenant={tenant === undefined} now={now} />)
      )}
      <p class="pager">
        {!isFirst && <a href={at(query)}>Newest</a>}
        {next !== null && <a href={at({ ...query, cursor: next })}>Older</a>}
      </p>
    </section>
  </>
);

function emptyText(isFirst: boolean, query: Readonly<Record<string, string>>): string {
  if (!isFirst) return "No older changes.";
  return Object.keys(query).length > 0
    ? "No changes match. Widen the time, or clear the filter."
    : "No changes yet. Whatever is created or changed appears here.";
}

const Change: FC<{ entry: AuditEntryView; showTenant: boolean; now: number }> = ({
  entry,
  showTenant,
  now,
}) => {
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
          <Ago at={Date.parse(entry.at)} now={now} />
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

const actorTexts: Readonly<Record<AuditEntryView["actor"]["kind"], string>> = {
  api_key: "By a key",
  admin_key: "By ADMIN_KEY",
  dashboard: "At the dashboard",
  portal: "In the portal",
  binding: "By a Worker's binding",
  agent: "By an agent",
  breakwater: "By Breakwater",
};

export function actorText({ kind, key, person, approver }: AuditEntryView["actor"]): string {
  const who = person ?? key;
  const text = who === null ? actorTexts[kind] : `${actorTexts[kind]}, ${who}`;
  if (approver === undefined) return text;
  const approved = actorText(approver);
  return `${text}; approved ${approved.charAt(0).toLowerCase()}${approved.slice(1)}`;
}

/** Where what was changed has a page. */
function pathOf(subject: string): string | undefined {
  return idPatterns.destination.test(subject) ? `/dashboard/destinations/${subject}` : undefined;
}

function valueText(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  return typeof value === "string" ? value : JSON.stringify(value);
}
