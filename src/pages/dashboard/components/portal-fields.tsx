/**
 * What visitors of the portal may do and how it looks, in the form of a tenant's settings and in that of a link. Both have
 * the same inputs: a box that is not ticked takes away, an empty field restricts nothing.
 */
import type { FC } from "hono/jsx";
import {
  type Capability,
  capabilities,
  limitedFields,
  type PortalRules,
  portalLanguages,
  portalThemes,
  type TenantPortal,
} from "../../../core/portal-access.ts";
import { CheckField, ChoiceField, type FormState, type Option, TextField } from "../../ui/fields.tsx";
import { type Form, numberIn, textIn } from "../../ui/format.ts";

const limits = ["max_endpoints", ...limitedFields] as const;

/** The right that a tenant's settings give: without them it is not there. A link takes it away, as all others. */
const GRANTED = "may_write_code" satisfies Capability;

/** The rules of a tenant's settings in a form. */
export function tenantRulesIn(form: Form): Readonly<Record<string, unknown>> {
  const { [GRANTED]: _, ...rules } = rulesIn(form);
  return { ...rules, ...(form[GRANTED] === "on" && { [GRANTED]: true }) };
}

/** The inputs of a tenant's rules: the inverse of `tenantRulesIn`, with language and theme. */
export function tenantInputs(portal: TenantPortal): Readonly<Record<string, string>> {
  const { [GRANTED]: _, ...inputs } = portalInputs(portal);
  return { ...inputs, ...(portal[GRANTED] === true && { [GRANTED]: "on" }) };
}

/** The rules in a form; what restricts nothing is left out. */
export function rulesIn(form: Form): Readonly<Record<string, unknown>> {
  const denied = capabilities.filter((name) => form[name] !== "on").map((name) => [name, false] as const);
  const given = limits.map((name) => [name, numberIn(form, name)] as const);
  return Object.fromEntries([...denied, ...given.filter(([, value]) => value !== null)]);
}

/** Language and theme in a form; what is left to others is left out. */
export function appearanceIn(form: Form): Readonly<Record<string, unknown>> {
  const given = (["language", "theme"] as const).map((name) => [name, textIn(form, name)] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

/** The inputs of rules, with language and theme where they have some: the inverse of the two above. */
export function portalInputs(portal: PortalRules & TenantPortal): Readonly<Record<string, string>> {
  const boxes = capabilities.filter((name) => portal[name] !== false).map((name) => [name, "on"] as const);
  const given = [...limits, "language" as const, "theme" as const].map(
    (name) => [name, portal[name]] as const,
  );
  const texts = given.filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries([...boxes, ...texts.map(([name, value]) => [name, String(value)] as const)]);
}

const hints: Readonly<Partial<Record<Capability, string>>> = {
  may_write_code: "It runs in isolates of its own. A link gives this only where the tenant's settings do.",
  may_see_payloads: "Without this, visitors see neither contents nor tags of events.",
};

export const RuleFields: FC<{ form: FormState }> = ({ form }) => (
  <>
    <fieldset class="stack">
      <legend>What visitors may do</legend>
      {capabilities.map((name) => (
        <CheckField form={form} name={name} {...(hints[name] && { hint: hints[name] })} />
      ))}
    </fieldset>
    <fieldset class="fields">
      <legend>Limits</legend>
      <TextField
        form={form}
        name="max_endpoints"
        type="number"
        hint="The most endpoints that the tenant may have. Empty means no limit."
      />
      <TextField
        form={form}
        name="max_concurrency"
        type="number"
        hint="The highest that a visitor may set."
      />
      <TextField
        form={form}
        name="rate_per_second"
        type="number"
        hint="The highest that a visitor may set."
      />
    </fieldset>
  </>
);

const languageNames = { en: "English", de: "German" } as const;
const themeNames = { auto: "As the visitor's device prefers", light: "Light", dark: "Dark" } as const;

/** @param otherwise what counts where nothing is chosen */
export const AppearanceFields: FC<{
  form: FormState;
  otherwise: Readonly<{ language: string; theme: string }>;
}> = ({ form, otherwise }) => (
  <fieldset class="fields">
    <legend>Language and theme</legend>
    <ChoiceField
      form={form}
      name="language"
      options={[
        ["", otherwise.language],
        ...portalLanguages.map((name): Option => [name, languageNames[name]]),
      ]}
    />
    <ChoiceField
      form={form}
      name="theme"
      options={[["", otherwise.theme], ...portalThemes.map((name): Option => [name, themeNames[name]])]}
    />
  </fieldset>
);
