/**
 * The form of a destination, as the API takes it, and back. Pure. Only properties of the form are validated here:
 * whether its JSON is JSON, and its lines are headers. The API validates the rest, and its errors are shown at the
 * inputs.
 *
 * An empty input is null, the API's default. A value that is not shown, of a header or of the authentication, stays as stored
 * as long as its input is not changed.
 */

import type { FieldError } from "../../core/result.ts";
import type { RetrySpec } from "../../core/retry/policy.ts";
import { signatureFormsShape, templateShapes, vendorForms } from "../../core/signature-forms.ts";
import { MASK } from "../../delivery/authorization.ts";
import { targetFieldNames } from "../../delivery/kinds/registry.ts";
import { type DestinationKind, isDestinationKind } from "../../delivery/kinds/sending.ts";
import { fieldDescriptions, operatorFields } from "../../features/destinations/fields.ts";
import { authInputs } from "../../features/destinations/inputs.ts";
import type { destinationView } from "../../features/destinations/schema.ts";
import {
  breakerNames,
  destinationLabels,
  type FormFields,
  fieldsNamed,
  type InputAbout,
  limitNames,
  type PlacedError,
  placeErrors,
  shownIn,
  templateFields,
  typedIn,
} from "../ui/form-fields.ts";
import { type Form, numberIn, pairsIn, textIn } from "../ui/format.ts";
import { policyFieldsOf, specIn } from "./simulator/policy-form.tsx";

type DestinationView = ReturnType<typeof destinationView>;
type Input = Readonly<Record<string, unknown>>;

/** The input of a form, and the errors of inputs that cannot even be read. */
export type ParsedInput = Readonly<{ input: Input; errors: readonly FieldError[] }>;

/** The change in the form of the limits. */
export function limitsIn(form: Form) {
  const pick = (names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, numberIn(form, name)]));
  return { ...pick(limitNames), breaker: pick(breakerNames) };
}

/** The kind in a form; https if there is none. */
export function kindIn(form: Form): DestinationKind {
  const kind = textIn(form, "kind") ?? "https";
  return isDestinationKind(kind) ? kind : "https";
}

/** The settings in a form that destinations are created with, and changed by. */
export function destinationSettingsIn(form: Form): ParsedInput {
  const simple = fieldDescriptions.flatMap(([name, { input }]) =>
    input ? [typedIn(form, name, input)] : [],
  );
  const [headers, auth] = [pairsIn(form, "headers"), authIn(form)];
  const retry = specIn(form);
  const { breaker } = limitsIn(form);
  return {
    input: {
      ...Object.fromEntries(targetFieldNames(kindIn(form)).map((name) => [name, textIn(form, name) ?? null])),
      ...Object.fromEntries(simple.map(({ name, value }) => [name, value])),
      headers: headers.value,
      auth: auth.value,
      signature_forms: signatureFormsIn(form),
      breaker: Object.values(breaker).every((value) => value === null) ? null : breaker,
      retry: Object.keys(retry).length === 0 ? null : retry,
    },
    errors: [...simple.flatMap(({ errors }) => errors), ...headers.errors, ...auth.errors],
  };
}

/** The text of a shown value in an input; undefined if it stays empty. */
function textOf(value: unknown, about: InputAbout): string | undefined {
  return about.kind === "json" && Object.keys(value ?? {}).length === 0 ? undefined : shownIn(value, about);
}

/** A new destination: empty fields are left out, because the API has the defaults. */
export function newDestinationIn(form: Form): ParsedInput {
  const { input, errors } = destinationSettingsIn(form);
  const kind = kindIn(form);
  const given = {
    ...input,
    ...(kind === "https" ? { url: input.url ?? "" } : { kind }),
    tenant: textIn(form, "tenant") ?? null,
    signature: textIn(form, "signature") ?? null,
    secret: textIn(form, "secret") ?? null,
    handshake: form.handshake === "on" && kind === "https" ? true : null,
    status: form.paused === "on" ? "paused" : null,
  };
  return { input: Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)), errors };
}

/**
 * A form's changes of a destination, without fields equal to the stored ones, so that its secrets, and changes that
 * others have made meanwhile, stay.
 * @param burst the stored destination's own
 */
export function changesIn(form: Form, stored: DestinationView, burst: number | null): ParsedInput {
  const { input, errors } = destinationSettingsIn({ ...form, kind: stored.kind });
  const before = destinationSettingsIn(inputFieldsOf(stored, burst)).input;
  // Who is bound to a tenant has no input for what only operators set: that is no empty one.
  const isAsked = (name: string) => name in form || !operatorFields.some((own) => own === name);
  const differs = ([name, value]: readonly [string, unknown]) =>
    isAsked(name) && JSON.stringify(value) !== JSON.stringify(before[name] ?? null);
  return { input: Object.fromEntries(Object.entries(input).filter(differs)), errors };
}

/**
 * The inputs of a stored destination: the inverse of `destinationSettingsIn`.
 * @param burst its own; a burst that follows from the rate stays empty, so that it follows the next rate too
 */
export function inputFieldsOf(view: DestinationView, burst: number | null): Readonly<Record<string, string>> {
  const { auth, breaker, headers } = view;
  const simple = fieldDescriptions.flatMap(([name, { input }]) =>
    input ? [[name, textOf(view[name], input)] as const] : [],
  );
  const given = {
    ...Object.fromEntries(simple),
    kind: view.kind,
    ...shownTargetOf(view),
    headers: Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}`)
      .join("\n"),
    ...authFieldsOf(auth),
    ...signatureFieldsOf(view.signature_forms),
    rate_burst: burst,
    ...breaker,
    ...(view.retry === null ? {} : policyFieldsOf(view.retry as RetrySpec)),
  };
  const texts = Object.entries(given).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(texts.map(([name, value]) => [name, String(value)]));
}

/** The errors of the API in the words of the form, each at its input. */
export function errorsIn(form: Form, errors: readonly FieldError[]): readonly PlacedError[] {
  const signed = signatureInputs(form).map(({ vendor, slot }, index) =>
    signatureFields(`signature_forms[${index}]`, vendor, `template_${slot}_`),
  );
  return placeErrors(errors, Object.assign({}, destinationLabels, ...signed));
}

function signatureFields(path: string, vendor: string | undefined, prefix: string): FormFields {
  if (vendor !== undefined) return { [path]: ["signature_forms", "Signature forms"] };
  return { [path]: [`${prefix}content`, "Signed text"], ...fieldsNamed(templateFields, `${path}.`, prefix) };
}

/** The fields of the target that are shown: a token is not among them. */
function shownTargetOf(view: DestinationView): Readonly<Record<string, unknown>> {
  const shown: Readonly<Record<string, unknown>> = view;
  return Object.fromEntries(targetFieldNames(view.kind).map((name) => [name, shown[name]]));
}

/** An unchanged secret is the mask, which the API refuses, unless nothing has changed and all of it stays. */
function authIn(form: Form): Readonly<{ value: Input | null; errors: FieldError[] }> {
  const kind = textIn(form, "auth_kind");
  if (kind === undefined) return { value: null, errors: [] };
  const inputs = authInputs.find(([name]) => name === kind)?.[1] ?? [];
  const read = inputs.map(([name, { isSecret, ...about }]) => {
    const { value, errors } = typedIn(form, `auth_${name}`, about);
    return {
      name,
      value: isSecret ? (value ?? MASK) : value,
      errors: errors.map((one) => ({ ...one, field: `auth.${name}` })),
    };
  });
  return {
    value: { kind, ...Object.fromEntries(read.map(({ name, value }) => [name, value])) },
    errors: read.flatMap(({ errors }) => errors),
  };
}

function authFieldsOf(auth: DestinationView["auth"]): Readonly<Record<string, string | undefined>> {
  const shown = Object.entries(auth ?? {}).map(([name, value]) => {
    return [`auth_${name}`, textOf(value, { kind: typeof value === "object" ? "json" : "text" })] as const;
  });
  return Object.fromEntries(shown);
}

type SignatureInput = Readonly<{ vendor?: (typeof vendorForms)[number]; slot?: number }>;

/** The forms that are chosen, in the order in which the API gets them. */
function signatureInputs(form: Form): readonly SignatureInput[] {
  const vendors = vendorForms.filter((name) => form[`sign_${name}`] === "on").map((vendor) => ({ vendor }));
  const slots = Array.from({ length: signatureFormsShape.max }, (_, slot) => ({ slot }));
  return [...vendors, ...slots.filter(({ slot }) => templateIn(form, slot) !== undefined)];
}

/** The signature forms in a form; null for only Standard Webhooks, which is the default. */
export function signatureFormsIn(form: Form): readonly Input[] | null {
  const forms = signatureInputs(form).map(({ vendor, slot = 0 }) =>
    vendor === undefined ? { form: "template", ...templateIn(form, slot) } : { form: vendor },
  );
  const isDefault = forms.length === 0 || (forms.length === 1 && forms[0]?.form === "standard");
  return isDefault ? null : forms;
}

/**
 * A template with typed fields; a field with a default does not count. Spaces at the ends are part of it: they are
 * signed.
 */
function templateIn(form: Form, slot: number): Input | undefined {
  const given = (Object.keys(templateShapes) as (keyof typeof templateShapes)[]).flatMap((name) => {
    const text = form[`template_${slot}_${name}`];
    return typeof text !== "string" || text === "" ? [] : [[name, text.replaceAll("\r\n", "\n")] as const];
  });
  return given.some(([name]) => templateShapes[name].kind !== "choice")
    ? Object.fromEntries(given)
    : undefined;
}

/** The inputs of stored signature forms: the inverse of `signatureFormsIn`. */
export function signatureFieldsOf(
  forms: DestinationView["signature_forms"],
): Readonly<Record<string, string>> {
  const used = forms ?? [{ form: "standard" as const }];
  const templates = used.filter((one) => one.form === "template");
  return Object.fromEntries([
    ...used.flatMap(({ form }) => (form === "template" ? [] : [[`sign_${form}`, "on"] as const])),
    ...templates.flatMap(({ form: _, ...template }, slot) =>
      Object.entries(template).map(([name, value = ""]) => [`template_${slot}_${name}`, value] as const),
    ),
  ]);
}
