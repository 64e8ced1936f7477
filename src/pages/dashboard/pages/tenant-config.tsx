/** Exports the configuration of a tenant as a file, and imports one: what it would do is shown before it is done. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import {
  exportTenant,
  importTenant,
  MOST_IMPORT_BYTES,
  type TenantImport,
  tenantDocument,
} from "../../../features/tenants/config.ts";
import { AreaField, FormNotice, formState } from "../../ui/fields.tsx";
import { tenantDocumentFields } from "../../ui/form-fields.ts";
import { addressOf, type Form, jsonIn, plural, textIn } from "../../ui/format.ts";
import { Copyable, Crumb } from "../../ui/parts.tsx";
import { unreadable } from "../../ui/services.ts";
import { callService, callWith } from "../calls.ts";
import { showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { type DashboardContext, type DashboardEnv, mayCall } from "../session.ts";
import { SETTINGS } from "./settings.tsx";

const IMPORT = `${SETTINGS}/import`;

/** As many bytes of JSON as the API takes, each of which may be written with three. */
export const LARGEST_FORM = { path: IMPORT, bytes: 3 * MOST_IMPORT_BYTES };

export function registerTenantConfigPages(app: Hono<DashboardEnv>): void {
  // A form, and no link: what it answers may have secrets in it, and is in the audit trail then.
  app.post(`${SETTINGS}/export`, async (c) => {
    const form = await c.req.parseBody();
    const tenant = textIn(form, "tenant") ?? "";
    const exported = await callService(c, exportTenant, { tenant, withSecrets: form.secrets === "true" });
    if (exported.kind !== "ok") return showRefusal(c, exported, SETTINGS);
    return c.body(`${JSON.stringify(exported.value, null, 2)}\n`, 200, {
      "content-type": "application/json",
      "content-disposition": `attachment; filename="${fileName(tenant)}"`,
      "cache-control": "no-store",
    });
  });

  app.get(IMPORT, (c) => forOperators(c, (tenant) => showForm(c, tenant, {})));

  app.post(IMPORT, async (c) => {
    const form = await c.req.parseBody();
    const tenant = textIn(form, "tenant") ?? "";
    const typed = { document: await documentIn(form) };
    const { value, fault } = jsonIn(typed, "document");
    if (fault !== undefined || value === null)
      return showForm(c, tenant, { typed, refused: unreadable([noDocument(fault)]) });
    if (typeof value !== "object" || Array.isArray(value))
      return showForm(c, tenant, { typed, refused: unreadable([NOT_AN_OBJECT]) });
    const isDryRun = form.action !== "import";
    const imported = await callWith(c, tenantDocument, value, (caller, document) =>
      importTenant(caller, { tenant, document, isDryRun, requestUrl: c.req.url }),
    );
    if (imported.kind === "forbidden" || imported.kind === "not_found")
      return showRefusal(c, imported, SETTINGS);
    if (imported.kind !== "ok") return showForm(c, tenant, { typed, refused: imported });
    return isDryRun
      ? showForm(c, tenant, { typed, dryRun: imported.value })
      : showImported(c, tenant, imported.value);
  });
}

/** Names of tenants have nothing that a header would have to escape, but a colon, which no file of Windows may have. */
function fileName(tenant: string): string {
  return `breakwater-${tenant.replaceAll(":", "-")}.json`;
}

/** The page of the tenant that is chosen, for those who may import into it or delete it; another answer for others. */
export function forOperators(
  c: DashboardContext,
  show: (tenant: string) => Response | Promise<Response>,
): Response | Promise<Response> {
  const { tenant, principal } = c.get("visitor");
  if (principal.tenant !== undefined) return showNotFound(c);
  if (!mayCall(c, importTenant)) return showReadOnly(c);
  return tenant === undefined ? c.redirect(SETTINGS, 302) : show(tenant);
}

/** The text of the file, where one was chosen, else what was pasted. */
async function documentIn(form: Form): Promise<string> {
  const { file } = form;
  if (file instanceof File && file.size > 0) return await file.text();
  return textIn(form, "document") ?? "";
}

/** @param fault what the parser says of it, which quotes it: only the place is shown, since it may have secrets */
function noDocument(fault?: string) {
  const place = /line \d+ column \d+/.exec(fault ?? "")?.[0];
  return {
    field: "document",
    fault: fault === undefined ? "is empty" : `is not JSON${place === undefined ? "" : ` at ${place}`}`,
    expected: "the JSON of an export, pasted or as a file",
  };
}

const NOT_AN_OBJECT = {
  field: "document",
  fault: "is not an object",
  expected: "the JSON of an export",
};

/** Whether the text may have secrets in it, whether it is JSON or not. */
function maySaySecrets(document: string): boolean {
  return /"(secret|headers|auth|token)"\s*:/.test(document);
}

type Shown = Readonly<{
  typed?: Readonly<{ document: string }>;
  refused?: Refused;
  dryRun?: TenantImport;
}>;

/**
 * What was pasted, or read from the file, is shown again, so that it can be mended, or imported after it was tried; but not
 * where it may have secrets, which no page shows a second time.
 */
function showForm(c: DashboardContext, tenant: string, { typed, refused, dryRun }: Shown) {
  const isHidden = typed !== undefined && maySaySecrets(typed.document);
  const form = formState(isHidden ? {} : (typed ?? {}), tenantDocumentFields, refused);
  return showPage(
    c,
    { title: `Import into ${tenant}`, place: "settings", refused },
    <section class="narrow">
      <Crumb href={addressOf(SETTINGS, { tenant })}>{`Settings of ${tenant}`}</Crumb>
      <h1>{`Import into ${tenant}`}</h1>
      <p class="lede">
        Destinations that do not exist are created with their ids. Those that exist are changed, and keep
        their secrets. The tenant's other destinations stay as they are. A configuration with an error changes
        nothing.
      </p>
      <form class="stack" method="post" action={IMPORT} enctype="multipart/form-data">
        <input type="hidden" name="tenant" value={tenant} autocomplete="off" />
        <FormNotice form={form} />
        {dryRun && <DryRun result={dryRun} />}
        <AreaField
          form={form}
          name="document"
          placeholder={'{"version": 1, "destinations": []}'}
          {...(isHidden && {
            hint: "It may contain secrets, so it is not shown again. Paste it again, or choose the file again.",
          })}
        />
        <div>
          <label for="f-file">Or a file, which takes precedence</label>
          <input type="file" id="f-file" name="file" accept=".json,application/json" />
        </div>
        <div class="actions">
          <button type="submit" name="action" value="try" class={dryRun ? "" : "main"}>
            See what it would do
          </button>
          <button type="submit" name="action" value="import" class={dryRun ? "main" : ""}>
            Import
          </button>
        </div>
      </form>
    </section>,
  );
}

const DryRun: FC<{ result: TenantImport }> = ({ result }) => (
  <output class="notice">
    <p>{`It would do this: ${summaryOf(result)}. Nothing has been changed yet.`}</p>
    <ul>
      {result.created.map(({ id }) => (
        <li>
          create <code>{id}</code>
        </li>
      ))}
      {result.changed.map((id) => (
        <li>
          change <Destination id={id} />
        </li>
      ))}
    </ul>
  </output>
);

const Destination: FC<{ id: string }> = ({ id }) => (
  <a href={`/dashboard/destinations/${id}`}>
    <code>{id}</code>
  </a>
);

function summaryOf({ created, changed, unchanged }: TenantImport): string {
  return [
    `create ${plural(created.length, "destination")}`,
    `change ${changed.length}`,
    `leave ${unchanged.length} as they are`,
  ].join(", ");
}

/** Not after a redirect, because new secrets must appear in no address and must not be stored to be shown again. */
function showImported(c: DashboardContext, tenant: string, { created, changed, unchanged }: TenantImport) {
  const isSecret = created.some(({ secret }) => secret !== undefined);
  return showPage(
    c,
    { title: "Configuration imported", place: "settings" },
    <section class="narrow">
      <Crumb href={addressOf(SETTINGS, { tenant })}>{`Settings of ${tenant}`}</Crumb>
      <h1>Configuration imported</h1>
      <p class="lede">
        {`${plural(created.length, "destination")} created, ${changed.length} changed, ${unchanged.length} as before.`}
        {isSecret && " Copy the new signing secrets now: they are not shown again."}
      </p>
      <div class="stack">
        {created.map((one) => (
          <article class="delivery" aria-label={one.id}>
            <p>
              Created <Destination id={one.id} />
            </p>
            {(one.omitted ?? []).length > 0 && (
              <p class="break">{`It is paused, because the configuration lacks its ${one.omitted?.join(", ")}. Set what is missing, then resume the destination.`}</p>
            )}
            {one.secret !== undefined && (
              <Copyable id={`secret-${one.id}`} text={one.secret} label={`The signing secret of ${one.id}`} />
            )}
            {one.public_key !== undefined && (
              <Copyable id={`key-${one.id}`} text={one.public_key} label={`The public key of ${one.id}`} />
            )}
          </article>
        ))}
        {changed.map((id) => (
          <p>
            Changed <Destination id={id} />
          </p>
        ))}
      </div>
    </section>,
  );
}
