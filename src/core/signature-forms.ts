/**
 * The forms in which an attempt can be signed: the JSON of the setting `signature_forms`, and for each form what is
 * signed and which headers result. Which key signs, and how, is in secrets/signing.ts.
 *
 * Every form is a recipe: a text to sign and headers, with placeholders for the facts of the attempt. The forms of
 * vendors follow what their receivers verify:
 *
 * - Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 * - Svix: https://docs.svix.com/receiving/verifying-payloads/how-manual
 * - Stripe: https://docs.stripe.com/webhooks#verify-manually
 * - GitHub: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 * - Slack: https://docs.slack.dev/authentication/verifying-requests-from-slack
 * - Shopify: https://shopify.dev/docs/apps/build/webhooks/subscribe/https
 */
import { HEADER_NAME } from "./destination-fields.ts";
import { optionalShape, readAs, type Shape, type ShapeFault, type ShapeType } from "./shape.ts";

/** Each costs an HMAC for each attempt. */
const MOST_FORMS = 5;

export const vendorForms = ["standard", "svix", "stripe", "github", "slack", "shopify"] as const;
const PLACEHOLDERS = "no other braces than those of {id}, {timestamp} and {type}";

function headerName(description: string) {
  return {
    kind: "text",
    pattern: HEADER_NAME,
    expected: "a header name (RFC 9110 token) of at most 100 characters",
    meta: { description },
  } as const satisfies Shape;
}

/** The fields of a template: what is signed, and how. */
export const templateShapes = {
  content: {
    kind: "text",
    pattern: /^[\n -~]{1,200}$/,
    is: (text) => text.split("{body}").length === 2 && hasOnlyPlaceholders(text),
    expected: `at most 200 printable ASCII characters and line feeds with {body} once, and ${PLACEHOLDERS}`,
    meta: { description: "The text that is signed; {body} is replaced by the exact bytes of the body." },
  },
  signature_header: headerName("The header of the signature."),
  timestamp_header: { ...headerName("A header for the timestamp, in seconds since 1970."), optional: true },
  id_header: { ...headerName("A header for the event's id."), optional: true },
  type_header: { ...headerName("A header for the event's type."), optional: true },
  prefix: optionalShape(
    {
      kind: "text",
      pattern: /^([!-~][ -~]{0,99})?$/,
      is: (text) => !text.includes("{body}") && hasOnlyPlaceholders(text),
      expected: `at most 100 printable ASCII characters without a space at the beginning, and ${PLACEHOLDERS}`,
    },
    "What precedes the signature in its header, `sha256=` for example; nothing by default.",
  ),
  encoding: optionalShape(
    { kind: "choice", values: ["hex", "base64"] },
    "How the signature is written; hex by default.",
  ),
  algorithm: optionalShape(
    { kind: "choice", values: ["sha256", "sha512", "sha1"] },
    "The hash of the HMAC; sha256 by default. sha1 is for receivers that support nothing else.",
  ),
  key: optionalShape(
    { kind: "choice", values: ["text", "bytes"] },
    "Which part of the secret is the key: its text as shown (the default), or the bytes after `whsec_`.",
  ),
} as const satisfies Readonly<Record<string, Shape>>;

/** Another form, or none, is the union's fault: a form's own is a field that it does not have. */
const signatureForm = {
  kind: "tagged",
  by: "form",
  of: [
    { kind: "object", fields: { form: { kind: "choice", values: vendorForms } } },
    { kind: "object", fields: { form: { kind: "choice", values: ["template"] }, ...templateShapes } },
  ],
  expected: `one of ${vendorForms.join(", ")}, template`,
} as const satisfies Shape;

export type SignatureForm = Readonly<ShapeType<typeof signatureForm>>;

/** The setting: one form, or several during a migration. No two of them may set the same header. */
export const signatureFormsShape = {
  kind: "list",
  of: signatureForm,
  min: 1,
  max: MOST_FORMS,
  expected: `a list of 1 to ${MOST_FORMS} forms`,
  faults: headersSetTwice,
  meta: {
    description:
      "How attempts are signed, in one form or in several during a migration; null is `standard`, Standard Webhooks. " +
      "`webhook-id`, `webhook-timestamp` and `webhook-attempt` are sent with every form.",
  },
} as const satisfies Shape;

function headersSetTwice(forms: readonly SignatureForm[]): ShapeFault[] {
  const seen = new Set<string>(COMMON_HEADERS);
  return forms.flatMap((form, index) =>
    namedHeaders(form).flatMap(({ field, name }) => {
      const message = `expected headers that no other form sets: ${name} is set already`;
      const isTaken = seen.has(name);
      seen.add(name);
      return isTaken ? [{ path: [index, field], message }] : [];
    }),
  );
}

const DEFAULT_FORMS: readonly SignatureForm[] = [{ form: "standard" }];

/** The forms in effect. A value that was edited by hand into something invalid counts as the default. */
export function formsOf(stored: unknown): readonly SignatureForm[] {
  if (stored === null || stored === undefined) return DEFAULT_FORMS;
  return readAs(signatureFormsShape, stored) ?? DEFAULT_FORMS;
}

/** Whether a key pair can sign: the libraries of all other forms only know HMAC. */
export function takesKeyPair(forms: readonly SignatureForm[]): boolean {
  return forms.every((form) => recipeOf(form).takesKeyPairs);
}

/**
 * Whether a secret may be any text: one of the forms uses it as it is written. If all use the bytes behind `whsec_`,
 * another text is a mistake.
 */
export function takesPlainText(forms: readonly SignatureForm[]): boolean {
  return forms.some((form) => recipeOf(form).digest.key === "text");
}

/** Whether one of the forms uses the bytes behind `whsec_`. */
export function takesBytes(forms: readonly SignatureForm[]): boolean {
  return forms.some((form) => recipeOf(form).digest.key === "bytes");
}

type NamedHeader = Readonly<{
  /** The field of the form that names it: `form` for a vendor's. */
  field: string;
  /** In lower case. */
  name: string;
}>;

/** The headers that a form sets besides those of every attempt. */
export function namedHeaders(form: SignatureForm): NamedHeader[] {
  if (form.form !== "template")
    return [...Object.keys(recipeOf(form).headers), recipeOf(form).header].map((name) => ({
      field: "form",
      name,
    }));
  const fields = ["signature_header", "timestamp_header", "id_header", "type_header"] as const;
  return fields.flatMap((field) => {
    const name = form[field];
    return name === undefined ? [] : [{ field, name: name.toLowerCase() }];
  });
}

/** The facts of an attempt when it is signed. */
export type Signed = Readonly<{
  /** The id of the event; the same on every attempt, as `type`. */
  id: string;
  type: string;
  /** Whole seconds since 1970. */
  timestamp: string;
}>;

/** How an HMAC is made of the content: with which of the secret's two readings, and how it is written. */
export type Digest = Readonly<{
  key: "text" | "bytes";
  algorithm: "sha256" | "sha512" | "sha1";
  encoding: "hex" | "base64";
}>;

export type Recipe = Readonly<{
  /** The signed content, with placeholders; the body's is in it once. */
  content: string;
  digest: Digest;
  /** The header of the signatures: `prefix`, then each signature after its `version`. */
  header: string;
  prefix: string;
  version: string;
  /** The separator of several signatures; absent if the form has room for only one. */
  separator?: string;
  /** Further headers, with placeholders. */
  headers: Readonly<Record<string, string>>;
  /** An ed25519 key may sign as well: its signatures have a version of their own. */
  takesKeyPairs?: true;
}>;

/** Sent with every attempt, so that any receiver can deduplicate by id. */
const COMMON_HEADERS = ["webhook-id", "webhook-timestamp", "webhook-attempt"] as const;

const text = { key: "text", algorithm: "sha256", encoding: "hex" } as const;
const bytes = { key: "bytes", algorithm: "sha256", encoding: "base64" } as const;

const standard: Recipe = {
  content: "{id}.{timestamp}.{body}",
  digest: bytes,
  header: "webhook-signature",
  prefix: "",
  version: "v1,",
  separator: " ",
  headers: {},
};

const vendorRecipes: Readonly<Record<(typeof vendorForms)[number], Recipe>> = {
  standard: { ...standard, takesKeyPairs: true },
  svix: {
    ...standard,
    header: "svix-signature",
    headers: { "svix-id": "{id}", "svix-timestamp": "{timestamp}" },
  },
  stripe: {
    content: "{timestamp}.{body}",
    digest: text,
    header: "stripe-signature",
    prefix: "t={timestamp},",
    version: "v1=",
    separator: ",",
    headers: {},
  },
  github: {
    content: "{body}",
    digest: text,
    header: "x-hub-signature-256",
    prefix: "",
    version: "sha256=",
    headers: { "x-github-event": "{type}", "x-github-delivery": "{id}" },
  },
  slack: {
    content: "v0:{timestamp}:{body}",
    digest: text,
    header: "x-slack-signature",
    prefix: "",
    version: "v0=",
    headers: { "x-slack-request-timestamp": "{timestamp}" },
  },
  shopify: {
    content: "{body}",
    digest: { ...text, encoding: "base64" },
    header: "x-shopify-hmac-sha256",
    prefix: "",
    version: "",
    headers: { "x-shopify-topic": "{type}", "x-shopify-webhook-id": "{id}" },
  },
};

export function recipeOf(form: SignatureForm): Recipe {
  if (form.form !== "template") return vendorRecipes[form.form];
  const { key = "text", algorithm = "sha256", encoding = "hex" } = form;
  const headers = [
    [form.timestamp_header, "{timestamp}"],
    [form.id_header, "{id}"],
    [form.type_header, "{type}"],
  ].flatMap(([name, value]) => (name === undefined ? [] : [[name.toLowerCase(), value]]));
  return {
    content: form.content,
    digest: { key, algorithm, encoding },
    header: form.signature_header.toLowerCase(),
    prefix: form.prefix ?? "",
    version: "",
    headers: Object.fromEntries(headers),
  };
}

export function signedTexts({ content }: Recipe, signed: Signed): readonly [before: string, after: string] {
  const [before = "", after = ""] = content.split("{body}");
  return [filled(before, signed), filled(after, signed)];
}

/** The headers of a form. @param signatures newest first, each with its version */
export function signatureHeaders(
  { header, headers, prefix, separator = "" }: Recipe,
  signed: Signed,
  signatures: readonly string[],
): Record<string, string> {
  const further = Object.entries(headers).map(([name, value]) => [name, filled(value, signed)]);
  return {
    ...Object.fromEntries(further),
    [header]: filled(prefix, signed) + signatures.join(separator),
  };
}

function filled(template: string, signed: Signed): string {
  if (!template.includes("{")) return template;
  return template.replace(/\{(id|timestamp|type)\}/g, (_, name: keyof Signed) => signed[name]);
}

function hasOnlyPlaceholders(template: string): boolean {
  return !/[{}]/.test(template.replace(/\{(id|timestamp|type|body)\}/g, ""));
}
