/**
 * The rights of the portal's visitors and its appearance, in the form of a tenant's settings and in that of a link.
 * Both have the same inputs: a box that is not ticked takes away, an empty field restricts nothing.
 */
import type { FC } from "hono/jsx";
import {
  type Capability,
  capabilities,
  limitedFields,
  type PortalLanguage,
  type PortalRules,
  type PortalTheme,
  type TenantPortal,
} from "../../../core/portal-access.ts";
import { Input, Inputs } from "../../ui/fields.tsx";
import { given } from "../../ui/form-fields.ts";
import { type Form, numberIn, textIn } from "../../ui/format.ts";

const limits = ["max_endpoints", ...limitedFields] as const;
const appearance = ["language", "theme"] as const;

/** The right that only a tenant's settings give. A link takes it away, like all others. */
const GRANTED = "may_write_code" satisfies Capability;

export function tenantRulesIn(form: Form): Readonly<Record<string, unknown>> {
  const { [GRANTED]: _, ...rules } = rulesIn(form);
  return { ...rules, ...(form[GRANTED] === "on" && { [GRANTED]: true }) };
}

/** The inputs of a tenant's rules: the inverse of `tenantRulesIn`, with language and theme. */
export function tenantInputs(portal: TenantPortal): Readonly<Record<string, string>> {
  const { [GRANTED]: _, ...inputs } = portalInputs(portal);
  return { ...inputs, ...(portal[GRANTED] === true && { [GRANTED]: "on" }) };
}

/** The rules in a form, without those that restrict nothing. */
export function rulesIn(form: Form): Readonly<Record<string, unknown>> {
  const denied = capabilities.filter((name) => form[name] !== "on").map((name) => [name, false] as const);
  return { ...Object.fromEntries(denied), ...given(limits.map((name) => [name, numberIn(form, name)])) };
}

/** Language and theme in a form, without those that are left to others. */
export function appearanceIn(form: Form): Readonly<Record<string, unknown>> {
  return given(appearance.map((name) => [name, textIn(form, name)]));
}

/** The inputs of rules, with language and theme where they have some: the inverse of the two above. */
export function portalInputs(portal: PortalRules & TenantPortal): Readonly<Record<string, string>> {
  const boxes = capabilities.filter((name) => portal[name] !== false).map((name) => [name, "on"] as const);
  const texts = given([...limits, ...appearance].map((name) => [name, portal[name]?.toString()]));
  return { ...Object.fromEntries(boxes), ...texts };
}

export const RuleFields: FC = () => (
  <>
    <fieldset class="stack">
      <legend>What visitors may do</legend>
      <Inputs names={capabilities} />
    </fieldset>
    <fieldset class="fields">
      <legend>Limits</legend>
      <Inputs names={limits} />
    </fieldset>
  </>
);

const languageNames: Readonly<Record<PortalLanguage, string>> = { en: "English", de: "German" };
const themeNames: Readonly<Record<PortalTheme, string>> = {
  auto: "As the visitor's device prefers",
  light: "Light",
  dark: "Dark",
};

/** @param props what counts where nothing is chosen */
export const AppearanceFields: FC<{ language: string; theme: string }> = ({ language, theme }) => (
  <fieldset class="fields">
    <legend>Language and theme</legend>
    <Input name="language" options={[["", language], ...Object.entries(languageNames)]} />
    <Input name="theme" options={[["", theme], ...Object.entries(themeNames)]} />
  </fieldset>
);
