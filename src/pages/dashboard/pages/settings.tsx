/** Settings of one tenant: the operator changes it, and a tenant's key sees its own. */
import type { FC } from "hono/jsx";
import { exportTenant } from "../../../features/tenants/config.ts";
import { type TenantView, tenantChange } from "../../../features/tenants/schema.ts";
import { changeTenant, getTenant, getTenants } from "../../../features/tenants/service.ts";
import { FieldForm, formState, Inputs, type RefusedForm } from "../../ui/fields.tsx";
import { given, readInputs, shownInputs, tenantFields, tenantInputFields } from "../../ui/form-fields.ts";
import { addressOf, type Form, textIn } from "../../ui/format.ts";
import { ButtonLink, CheckBox, OutcomeNotice, Section, Top } from "../../ui/parts.tsx";
import { changedMeanwhile } from "../../ui/services.ts";
import { showPage, showRefusal } from "../components/layout.tsx";
import {
  AppearanceFields,
  appearanceIn,
  RuleFields,
  tenantInputs,
  tenantRulesIn,
} from "../components/portal-fields.tsx";
import { type ActionOutcome, outcomeAt } from "../outcomes.ts";
import {
  callerOnPage,
  callService,
  callWith,
  type Dashboard,
  type DashboardContext,
  mayCall,
} from "../session.ts";
import { TenantForm } from "./tenants.tsx";

export const SETTINGS = "/dashboard/settings";

type Settings = Omit<TenantView, "tenant" | "updated_at">;

export function registerSettings(app: Dashboard): void {
  app.get(SETTINGS, (c) => {
    const { tenant } = c.get("visitor");
    return tenant === undefined ? showChoice(c) : showSettings(c, tenant);
  });

  app.post(SETTINGS, async (c) => {
    const typed = await c.req.parseBody();
    const tenant = textIn(typed, "tenant") ?? "";
    const stored = await callService(c, getTenant, tenant);
    if (stored.kind !== "ok") return showRefusal(c, stored, SETTINGS);
    const refused = changedMeanwhile(typed, stored.value.updated_at, "tenant");
    if (refused) return showSettings(c, tenant, { typed, refused });
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

const brand = ["name", "logo", "accent"] as const;

/** The form shows all of the settings, so empty fields are reset. */
export function tenantSettingsIn(form: Form) {
  const branding = given(brand.map((name) => [name, textIn(form, `brand_${name}`)]));
  return {
    ...readInputs(form, tenantInputFields).input,
    portal: orNull({ ...tenantRulesIn(form), ...appearanceIn(form) }),
    branding: orNull(branding),
  };
}

function orNull(values: Readonly<Record<string, unknown>>) {
  return Object.keys(values).length === 0 ? null : values;
}

/** The inputs of stored settings: the inverse of `tenantSettingsIn`. */
export function inputsOf({ portal, branding, ...settings }: Settings): Form {
  return {
    ...shownInputs(settings, tenantInputFields),
    ...tenantInputs(portal ?? {}),
    ...Object.fromEntries(brand.map((name) => [`brand_${name}`, branding?.[name]])),
  };
}

/**
 * The form's changes, without values equal to the stored settings: rules that were edited by hand into something
 * unreadable are shown as none, and must not become none when other fields are saved.
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
    <Top of="narrow" title="Settings" lede="Each tenant has its own settings. Choose a tenant.">
      <TenantForm action={SETTINGS} button="Show its settings">
        {tenants.map((tenant) => (
          <a class="button break" href={addressOf(SETTINGS, { tenant })}>
            {tenant}
          </a>
        ))}
        <a href="/dashboard/tenants">All tenants</a>
      </TenantForm>
    </Top>,
  );
}

async function showSettings(c: DashboardContext, tenant: string, { typed, refused }: RefusedForm = {}) {
  const stored = await callService(c, getTenant, tenant);
  if (stored.kind !== "ok") return showRefusal(c, stored, "/dashboard/tenants");
  const isOperator = c.get("visitor").principal.tenant === undefined;
  const isEditable = mayCall(c, changeTenant) && isOperator;
  const form = formState(typed ?? inputsOf(stored.value), tenantFields, refused);
  const why = isOperator
    ? "This session can only read: changing settings needs a key with the scope admin."
    : "The operator of the deployment sets these.";
  return showPage(
    c,
    { title: `Settings of ${tenant}`, place: "settings", refused },
    <>
      <Top of="narrow" title={`Settings of ${tenant}`}>
        <OutcomeNotice name={c.req.query("done")} />
        <FieldForm
          form={form}
          action={SETTINGS}
          hidden={{ tenant, read_at: String(stored.value.updated_at) }}
          submit={isEditable && "Save settings"}
          hint={isEditable ? undefined : why}
        >
          <fieldset class="stack" disabled={!isEditable}>
            <Inputs names={Object.keys(tenantInputFields)} />
            <h2>Portal</h2>
            <p class="hint">
              Applies to every visitor of the tenant. A portal link can restrict visitors further, but can't
              grant more.
            </p>
            <RuleFields />
            <AppearanceFields language="The language of the browser" theme="Automatic" />
            <fieldset class="fields">
              <legend>Branding</legend>
              <Inputs names={["brand_name", "brand_accent", "brand_logo"]} />
            </fieldset>
          </fieldset>
        </FieldForm>
      </Top>
      {mayCall(c, exportTenant) && <Configuration tenant={tenant} isOperator={isOperator} />}
    </>,
  );
}

/** Leads to the pages for all of a tenant at once: see tenant-config.tsx. */
const Configuration: FC<{ tenant: string; isOperator: boolean }> = ({ tenant, isOperator }) => (
  <Section id="configuration" title="Configuration" of="narrow">
    <p class="lede">The tenant's settings and destinations as JSON, to back up, review or move.</p>
    <div class="stack">
      <FieldForm
        action={`${SETTINGS}/export`}
        hidden={{ tenant }}
        submit="Export"
        button=""
        aside={
          isOperator && <ButtonLink href={addressOf(`${SETTINGS}/import`, { tenant })}>Import</ButtonLink>
        }
      >
        {isOperator && (
          <CheckBox
            name="secrets"
            value="true"
            label="Include secrets in plain text. Protect the file like a secret"
          />
        )}
      </FieldForm>
      {isOperator && (
        <div class="actions">
          <a href="/dashboard/erasures">Erasures</a>
          <a class="danger" href={addressOf(`${SETTINGS}/delete`, { tenant })}>
            Delete the tenant
          </a>
        </div>
      )}
    </div>
  </Section>
);
