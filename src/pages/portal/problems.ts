/** The API's refusals, in the words of the portal's forms and in the visitor's language. */

import type { AboveLimit, LimitedField } from "../../core/portal-access.ts";
import type { Refused } from "../../core/result.ts";
import type { FormState } from "../ui/fields.tsx";
import { fieldsNamed } from "../ui/form-fields.ts";
import type { Form } from "../ui/format.ts";
import type { PortalStyle } from "./look.ts";

/** A refusal as a sentence, if no field of a form can show it. */
export function sentenceOf({ t, f }: PortalStyle, { kind, retryAfterS }: Refused): string {
  switch (kind) {
    case "not_found":
      return t.notFound.text;
    case "forbidden":
      return t.refusals.read;
    case "conflict":
      return t.refused.conflict;
    case "too_many":
      return retryAfterS === undefined ? t.refused.busy : t.test.tooSoon(f.duration(retryAfterS * 1000));
    case "internal":
    case "unavailable":
      return t.refused.unavailable;
    default:
      return t.refused.general;
  }
}

/** The faults by field of a form. */
export type FieldFaults = Readonly<Record<string, string>>;

/** The faults of a form's fields: for each the text of the field, with the place in it if the API names one. */
export function fieldFaultsOf({ t }: PortalStyle, { errors = [] }: Pick<Refused, "errors">): FieldFaults {
  const known: Readonly<Record<string, string>> = { ...t.faults, ...t.limitFaults };
  const named = errors.map(({ field }) => {
    const [name = "", place = ""] = partsOf(field);
    const text = known[name] ?? t.refused.general;
    return [name in known ? name : "form", place === "" ? text : `${text} (${place})`] as const;
  });
  // Only the first of a field's faults is shown.
  return Object.fromEntries(named.toReversed());
}

/** `filter.order.total` as `filter` and `order.total`; `event_types[1]` as `event_types` and `2`. */
function partsOf(field: string): readonly string[] {
  const [, name = "", index, rest] = /^(\w+)(?:\[(\d+)\].*|\.(.*))?$/s.exec(field) ?? [];
  return [name, index === undefined ? (rest ?? "") : String(Number(index) + 1)];
}

/** A form of the portal with its faults, each at its field; that of `form` is above them. */
export function portalForm(
  values: Form,
  labels: Readonly<Record<string, string>>,
  faults: FieldFaults,
): FormState {
  const errors = Object.entries(faults).map(([name, text]) => ({
    input: name === "form" ? undefined : name,
    label: labels[name] ?? name,
    text,
  }));
  return { values, labels: fieldsNamed(labels), errors, ...(errors.length > 0 && { detail: "" }) };
}

/** The faults of fields that request more than the visitor may have. */
export function aboveFaults(
  { t, f }: PortalStyle,
  above: readonly AboveLimit[],
): Partial<Record<LimitedField, string>> {
  return Object.fromEntries(above.map(({ field, most }) => [field, t.form.atMost(f.count(most))]));
}
