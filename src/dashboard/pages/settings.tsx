/** What is set for one tenant: the operator changes it, and a tenant's key sees its own. */
import type { Hono } from "hono";
import { type Refused, statusOfRefused } from "../../api/internal-client.ts";
import type { CallApi } from "../call-api.ts";
import { CheckField, FormNotice, formState, TextField } from "../components/fields.tsx";
import { showPage, showRefusal } from "../components/layout.tsx";
import { OutcomeNotice, outcomeAt } from "../components/parts.tsx";
import { tenantFields } from "../form-fields.ts";
import { type Form, numberIn, textIn } from "../format.ts";
import { type DashboardContext, type DashboardEnv, mayChange } from "../session.ts";

const PATH = "/dashboard/settings";

/** As the API shows it. */
type Settings = Readonly<{
  contact_email: string | null;
  retention_days: number | null;
  payload_free: boolean;
}>;

export function registerSettings(app: Hono<DashboardEnv>, callApi: CallApi): void {
  app.get(PATH, (c) => {
    const { tenant } = c.get("visitor");
    return tenant === undefined ? showChoice(c) : showSettings(c, callApi, tenant);
  });

  app.post(PATH, async (c) => {
    const typed = await c.req.parseBody();
    const tenant = textIn(typed, "tenant") ?? "";
    const result = await callApi(c, "PATCH", at(tenant), settingsIn(typed));
    if (!result.ok && [403, 404].includes(result.status)) return showRefusal(c, result, PATH);
    if (!result.ok) return showSettings(c, callApi, tenant, { typed, refused: result });
    return c.redirect(`${outcomeAt(PATH, "settings")}&${new URLSearchParams({ tenant })}`, 303);
  });
}

function at(tenant: string): string {
  return `/v1/tenants/${encodeURIComponent(tenant)}`;
}

/** The form shows all of the settings, so what is empty in it is reset. */
export function settingsIn(form: Form) {
  return {
    contact_email: textIn(form, "contact_email") ?? null,
    retention_days: numberIn(form, "retention_days"),
    payload_free: form.payload_free === "on",
  };
}

function showChoice(c: DashboardContext) {
  return showPage(
    c,
    { title: "Settings", place: "settings" },
    <section class="narrow">
      <h1>Settings</h1>
      <p class="lede">
        Settings are those of one tenant. <a href="/dashboard/tenants">Choose a tenant</a> first.
      </p>
    </section>,
  );
}

type Typed = Readonly<{ typed: Form; refused: Refused }>;

async function showSettings(
  c: DashboardContext,
  callApi: CallApi,
  tenant: string,
  { typed, refused }: Partial<Typed> = {},
) {
  const stored = await callApi(c, "GET", at(tenant));
  if (!stored.ok) return showRefusal(c, stored, "/dashboard/tenants");
  const isEditable = mayChange(c) && c.get("visitor").principal.tenant === undefined;
  const { contact_email, retention_days, payload_free } = stored.json as Settings;
  const shown = { contact_email, retention_days, payload_free: payload_free ? "on" : "" };
  const form = formState(typed ?? shown, tenantFields, refused);
  return showPage(
    c,
    { title: `Settings of ${tenant}`, place: "settings" },
    <section class="narrow">
      <h1 class="break">{`Settings of ${tenant}`}</h1>
      <OutcomeNotice name={c.req.query("done")} />
      <form class="stack" method="post" action={PATH}>
        <input type="hidden" name="tenant" value={tenant} autocomplete="off" />
        <FormNotice form={form} />
        <fieldset class="stack" disabled={!isEditable}>
          <TextField
            form={form}
            name="contact_email"
            placeholder="ops@acme.example"
            hint="Gets a mail when one of the tenant's destinations fails or recovers. Empty means nobody."
          />
          <TextField
            form={form}
            name="retention_days"
            type="number"
            hint="For how long its events are kept. Empty means as long as the deployment keeps events."
          />
          <CheckField
            form={form}
            name="payload_free"
            hint="The body of an event is removed once all of its deliveries have been delivered."
          />
        </fieldset>
        {isEditable ? (
          <div class="actions">
            <button type="submit" class="main">
              Save settings
            </button>
          </div>
        ) : (
          <p class="hint">The operator of the deployment sets these.</p>
        )}
      </form>
    </section>,
    refused ? statusOfRefused(refused) : 200,
  );
}
