/**
 * Actions on a whole tenant: exports its configuration as a file, and imports one after a preview; deletes the tenant
 * after its name has been typed, and leads to the erasure of its events, which is the receipt.
 */
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import {
  exportTenant,
  importTenant,
  MOST_IMPORT_BYTES,
  type TenantImport,
  tenantDocument,
} from "../../../features/tenants/config.ts";
import { removeTenant } from "../../../features/tenants/service.ts";
import { FieldForm, formState, Input, type RefusedForm } from "../../ui/fields.tsx";
import { tenantDeletionFields, tenantDocumentFields } from "../../ui/form-fields.ts";
import { addressOf, type Form, jsonIn, plural, textIn } from "../../ui/format.ts";
import { Copyable, Top } from "../../ui/parts.tsx";
import { unreadable } from "../../ui/services.ts";
import { showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { callService, callWith, type Dashboard, type DashboardContext, mayCall } from "../session.ts";
import { ERASURES } from "./erasures.tsx";
import { SETTINGS } from "./settings.tsx";

const IMPORT = `${SETTINGS}/import`;
const DELETE = `${SETTINGS}/delete`;

/** As many bytes of JSON as the API takes, each of which may be written with three. */
export const LARGEST_FORM = { path: IMPORT, bytes: 3 * MOST_IMPORT_BYTES };

export function registerTenantConfigPages(app: Dashboard): void {
  // A form, and not a link: the answer may contain secrets, and is then in the audit trail.
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
    const { value, fault: why } = jsonIn(typed, "document");
    if (why !== undefined || value === null)
      return showForm(c, tenant, { typed, refused: unreadable([noDocument(why)]) });
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

  app.get(DELETE, (c) => forOperators(c, (tenant) => showDeletion(c, tenant)));

  app.post(DELETE, async (c) => {
    const typed = await c.req.parseBody();
    const tenant = textIn(typed, "tenant") ?? "";
    const name = textIn(typed, "confirm") ?? "";
    const isNot = fault("confirm", "is not that of the tenant to delete", `${tenant}, as it is written`);
    if (name !== tenant) return showDeletion(c, tenant, { typed, refused: unreadable([isNot]) });
    const removed = await callService(c, removeTenant, tenant);
    if (removed.kind !== "ok") return showRefusal(c, removed, SETTINGS);
    return c.redirect(`${ERASURES}/${removed.value.id}`, 303);
  });
}

const fault = (field: string, fault: string, expected: string) => ({ field, fault, expected });

/**
 * Names of tenants need no escapes in a header, but they may have a colon, which Windows does not allow in names of
 * files.
 */
function fileName(tenant: string): string {
  return `breakwater-${tenant.replaceAll(":", "-")}.json`;
}

/** The page of the tenant that is chosen, for visitors who may import into it or delete it; another answer for others. */
function forOperators(
  c: DashboardContext,
  show: (tenant: string) => Response | Promise<Response>,
): Response | Promise<Response> {
  const { tenant, principal } = c.get("visitor");
  if (principal.tenant !== undefined) return showNotFound(c);
  if (!mayCall(c, importTenant)) return showReadOnly(c);
  return tenant === undefined ? c.redirect(SETTINGS, 302) : show(tenant);
}

/** The text of the file, if one was chosen, else the pasted text. */
async function documentIn(form: Form): Promise<string> {
  const { file } = form;
  if (file instanceof File && file.size > 0) return await file.text();
  return textIn(form, "document") ?? "";
}

/** @param why the parser's message, which quotes the text: only the place is shown, because the text may contain secrets */
function noDocument(why?: string) {
  const place = /line \d+ column \d+/.exec(why ?? "")?.[0];
  const text = why === undefined ? "is empty" : `is not JSON${place === undefined ? "" : ` at ${place}`}`;
  return fault("document", text, "the JSON of an export, pasted or as a file");
}

const NOT_AN_OBJECT = fault("document", "is not an object", "the JSON of an export");

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
 * The text is shown again, so that it can be corrected, or imported after a preview; but not if it may contain secrets,
 * which no page shows a second time.
 */
function showForm(c: DashboardContext, tenant: string, { typed, refused, dryRun }: Shown) {
  const isHidden = typed !== undefined && maySaySecrets(typed.document);
  const form = formState(isHidden ? {} : (typed ?? {}), tenantDocumentFields, refused);
  return showPage(
    c,
    { title: `Import into ${tenant}`, place: "settings", refused },
    <Top
      of="narrow"
      crumb={crumbOf(tenant)}
      title={`Import into ${tenant}`}
      lede="Destinations that do not exist are created with their ids. Those that exist are changed, and keep their secrets. The tenant's other destinations stay as they are. A configuration with an error changes nothing."
    >
      <FieldForm
        form={form}
        action={IMPORT}
        enctype="multipart/form-data"
        hidden={{ tenant }}
        actions={[
          ["try", "See what it would do", dryRun ? "" : "main"],
          ["import", "Import", dryRun ? "main" : ""],
        ]}
      >
        {dryRun && <DryRun result={dryRun} />}
        <Input
          name="document"
          hint={
            isHidden
              ? "It may contain secrets, so it is not shown again. Paste it again, or choose the file again."
              : undefined
          }
        />
        <div>
          <label for="f-file">Or a file, which takes precedence</label>
          <input type="file" id="f-file" name="file" accept=".json,application/json" />
        </div>
      </FieldForm>
    </Top>,
  );
}

const crumbOf = (tenant: string) => [addressOf(SETTINGS, { tenant }), `Settings of ${tenant}`] as const;

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
    <Top
      of="narrow"
      crumb={crumbOf(tenant)}
      title="Configuration imported"
      lede={`${plural(created.length, "destination")} created, ${changed.length} changed, ${unchanged.length} as before.${isSecret ? " Copy the new signing secrets now: they are not shown again." : ""}`}
    >
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
    </Top>,
  );
}

function showDeletion(c: DashboardContext, tenant: string, { typed, refused }: RefusedForm = {}) {
  const form = formState(typed ?? {}, tenantDeletionFields, refused);
  return showPage(
    c,
    { title: `Delete ${tenant}`, place: "settings", refused },
    <Top of="narrow" crumb={crumbOf(tenant)} title={`Delete the tenant ${tenant}?`}>
      <div class="stack">
        <p>
          This cannot be undone. It deletes the tenant's destinations and settings, revokes its keys, ends its
          sessions, disables its portal links, and erases the contents of all its events.
        </p>
        <p>Unfinished deliveries are cancelled. A request that is on its way still arrives.</p>
        <FieldForm
          form={form}
          action={DELETE}
          hidden={{ tenant }}
          submit="Delete the tenant"
          button="main bad"
          cancel={crumbOf(tenant)[0]}
        >
          <Input name="confirm" hint={`Type ${tenant} to confirm.`} />
        </FieldForm>
      </div>
    </Top>,
  );
}
