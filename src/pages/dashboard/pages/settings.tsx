/** Settings of one tenant: the operator changes it, and a tenant's key sees its own. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { exportTenant } from "../../../features/tenants/config.ts";
import { type TenantView, tenantChange } from "../../../features/tenants/schema.ts";
import { changeTenant, getTenant, getTenants } from "../../../features/tenants/service.ts";
import { CheckField, FormNotice, type FormState, formState, TextField } from "../../ui/fields.tsx";
import { tenantFields } from "../../ui/form-fields.ts";
import { type Form, numberIn, textIn } from "../../ui/format.ts";
import {
  type ActionOutcome,
  ButtonLink,
  CheckBox,
  OutcomeNotice,
  outcomeAt,
  Section,
  Submit,
} from "../../ui/parts.tsx";
import { callService, callWith } from "../calls.ts";
import { showPage, showRefusal } from "../components/layout.tsx";
import {
  AppearanceFields,
  appearanceIn,
  RuleFields,
  tenantInputs,
  tenantRulesIn,
} from "../components/portal-fields.tsx";
import { TenantForm } from "../components/tenant-form.tsx";
import { callerOnPage, type DashboardContext, type DashboardEnv, mayCall } from "../session.ts";

export const SETTINGS = "/dashboard/settings";

type Settings = Omit<TenantView, "tenant" | "updated_at">;

export function registerSettings(app: Hono<DashboardEnv>): void {
  app.get(SETTINGS, (c) => {
    const { tenant } = c.get("visitor");
    return tenant === undefined ? showChoice(c) : showSettings(c, tenant);
  });

  app.post(SETTINGS, async (c) => {
    const typed = await c.req.parseBody();
    const tenant = textIn(typed, "tenant") ?? "";
    const stored = await callService(c, getTenant, tenant);
    if (stored.kind !== "ok") return showRefusal(c, stored, SETTINGS);
    const change = changesIn(typed, stored.value);
    const at = (outcome: ActionOutcome) =>
      `${outcomeAt(SETTINGS, outcome)}&${new URLSearchParams({ tenant })}`;
    if (Object.keys(change).length === 0) return c.redirect(at("unchanged"), 303);
    const result = await callWith(c, tenantChange, change, (caller, valid) =>
      changeTenant(caller, { tenant, change: valid }),
    );
    if (result.kind === "forbidden" || result.kind === "not_found") return showRefusal(c, result, SETTINGS);
    if (result.kind !== "ok") return showSettings(c, tenant, { typed, refused: result });
    return c.redirect(at("settings"), 303);
  });
}

/** The form shows all of the settings, so what is empty in it is reset. */
export function tenantSettingsIn(form: Form) {
  const text = (name: string) => textIn(form, name) ?? null;
  const branding = { name: text("brand_name"), logo: text("brand_logo"), accent: text("brand_accent") };
  return {
    contact_email: text("contact_email"),
    retention_days: numberIn(form, "retention_days"),
    payload_free: form.payload_free === "on",
    functions: form.functions === "on",
    portal: orNull({ ...tenantRulesIn(form), ...appearanceIn(form) }),
    branding: orNull(Object.fromEntries(Object.entries(branding).filter(([, value]) => value !== null))),
  };
}

function orNull(given: Readonly<Record<string, unknown>>) {
  return Object.keys(given).length === 0 ? null : given;
}

/** The inputs of stored settings: the inverse of `tenantSettingsIn`. */
export function inputsOf({ portal, branding, ...settings }: Settings): Form {
  const { contact_email, retention_days, payload_free, functions } = settings;
  return {
    contact_email,
    retention_days: retention_days?.toString(),
    payload_free: payload_free ? "on" : "",
    functions: functions ? "on" : "",
    ...tenantInputs(portal ?? {}),
    brand_name: branding?.name,
    brand_logo: branding?.logo,
    brand_accent: branding?.accent,
  };
}

/**
 * The form's changes. What says the same as the stored settings is left out: rules that were edited by hand into
 * something unreadable are shown as none, and must not become none by saving something else.
 */
function changesIn(form: Form, stored: Settings) {
  const before: Readonly<Record<string, unknown>> = tenantSettingsIn(inputsOf(stored));
  const differing = Object.entries(tenantSettingsIn(form)).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  );
  return Object.fromEntries(differing);
}

/** Tenants that can be chosen by a click. */
const OFFERED = 5;

async function showChoice(c: DashboardContext) {
  const listed = await getTenants(callerOnPage(c), { after: undefined, limit: OFFERED });
  const tenants = listed.kind === "ok" ? listed.value : [];
  return showPage(
    c,
    { title: "Settings", place: "settings" },
    <section class="narrow">
      <h1>Settings</h1>
      <p class="lede">Each tenant has settings of its own. Choose a tenant.</p>
      <TenantForm action={SETTINGS} button="Show its settings">
        {tenants.map((tenant) => (
          <a class="button break" href={`${SETTINGS}?${new URLSearchParams({ tenant })}`}>
            {tenant}
          </a>
        ))}
        <a href="/dashboard/tenants">All tenants</a>
      </TenantForm>
    </section>,
  );
}

type Typed = Readonly<{ typed: Form; refused: Refused }>;

async function showSettings(c: DashboardContext, tenant: string, { typed, refused }: Partial<Typed> = {}) {
  const stored = await callService(c, getTenant, tenant);
  if (stored.kind !== "ok") return showRefusal(c, stored, "/dashboard/tenants");
  const isOperator = c.get("visitor").principal.tenant === undefined;
  const isEditable = mayCall(c, changeTenant) && isOperator;
  const form = formState(typed ?? inputsOf(stored.value), tenantFields, refused);
  return showPage(
    c,
    { title: `Settings of ${tenant}`, place: "settings", refused },
    <>
      <section class="narrow">
        <h1>{`Settings of ${tenant}`}</h1>
        <OutcomeNotice name={c.req.query("done")} />
        <form class="stack" method="post" action={SETTINGS}>
          <input type="hidden" name="tenant" value={tenant} autocomplete="off" />
          <FormNotice form={form} />
          <fieldset class="stack" disabled={!isEditable}>
            <SettingFields form={form} />
          </fieldset>
          {isEditable ? (
            <div class="actions">
              <Submit>Save settings</Submit>
            </div>
          ) : (
            <p class="hint">
              {isOperator
                ? "This session can only read: changing settings needs a key with the scope admin."
                : "The operator of the deployment sets these."}
            </p>
          )}
        </form>
      </section>
      {mayCall(c, exportTenant) && <Configuration tenant={tenant} isOperator={isOperator} />}
    </>,
  );
}

const SettingFields: FC<{ form: FormState }> = ({ form }) => (
  <>
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
      hint="How long its events are kept. Empty uses the deployment's retention."
    />
    <CheckField
      form={form}
      name="payload_free"
      hint="The body of an event is removed once all of its deliveries have been delivered."
    />
    <CheckField
      form={form}
      name="functions"
      hint="Without this, none runs, and deliveries that need one wait."
    />
    <h2>Portal</h2>
    <p class="hint">
      Applies to every visitor of the tenant. A portal link can restrict visitors further, but can't grant
      more.
    </p>
    <RuleFields form={form} />
    <AppearanceFields
      form={form}
      otherwise={{ language: "The language of the browser", theme: "Automatic" }}
    />
    <fieldset class="fields">
      <legend>Branding</legend>
      <TextField form={form} name="brand_name" placeholder="Acme" />
      <TextField form={form} name="brand_accent" placeholder="#0b6a72" />
      <TextField
        form={form}
        name="brand_logo"
        of="all"
        placeholder="https://cdn.acme.example/logo.svg"
        hint="An https URL, or a PNG, JPEG, GIF or WebP image as data: URL in base64. Empty fields use the deployment's branding."
      />
    </fieldset>
  </>
);

/** Leads to the pages for all of a tenant at once: see tenant-config.tsx and delete-tenant.tsx. */
const Configuration: FC<{ tenant: string; isOperator: boolean }> = ({ tenant, isOperator }) => {
  const query = new URLSearchParams({ tenant });
  return (
    <Section id="configuration" title="Configuration" of="narrow">
      <p class="lede">The tenant's settings and destinations as JSON, to back up, review or move.</p>
      <div class="stack">
        <form class="stack" method="post" action={`${SETTINGS}/export`}>
          <input type="hidden" name="tenant" value={tenant} autocomplete="off" />
          {isOperator && (
            <CheckBox
              name="secrets"
              value="true"
              label="Include secrets in plain text. Protect the file like a secret"
            />
          )}
          <div class="actions">
            <button type="submit">Export</button>
            {isOperator && <ButtonLink href={`${SETTINGS}/import?${query}`}>Import</ButtonLink>}
          </div>
        </form>
        {isOperator && (
          <div class="actions">
            <a href="/dashboard/erasures">Erasures</a>
            <a class="danger" href={`${SETTINGS}/delete?${query}`}>
              Delete the tenant
            </a>
          </div>
        )}
      </div>
    </Section>
  );
};
