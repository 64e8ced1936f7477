/**
 * The words that pages have for the API's fields, and the input of a form at which an error of the API is shown. The one
 * place for both, so that a person never reads the API's names. Pure.
 */

import { parseExactly } from "../../core/json-value.ts";
import { type Breaker, breakerShape, defaultBreaker, defaultLimits, limitShape } from "../../core/limits.ts";
import type { FieldError } from "../../core/result.ts";
import { fieldDescriptions } from "../../features/destinations/fields.ts";
import { authInputs, authKinds, targetInputs } from "../../features/destinations/inputs.ts";
import { type Form, jsonIn, listIn, numberIn, textIn, utcIn } from "./format.ts";
import { bodyTexts, kindTexts, orderTexts, templateTexts } from "./setting-texts.ts";

export type Option = readonly [value: string, label: string];

/** The input of a field: one line of text by default. */
export type InputAbout = Readonly<{
  kind?:
    | "text"
    | "url"
    | "password"
    | "number"
    | "time"
    | "list"
    | "area"
    | "json"
    | "check"
    | "choice"
    | undefined;
  hint?: string | undefined;
  placeholder?: string | undefined;
  maxlength?: number | undefined;
  required?: boolean | undefined;
  range?: Readonly<{ min: number; max: number }> | undefined;
  /** Whether a time has seconds. */
  step?: "1" | undefined;
  inputmode?: "numeric" | "decimal" | undefined;
  options?: readonly Option[];
  /** The expected kind of JSON. */
  expected?: string;
  /** Whether numbers of JSON stay as they are typed. */
  exact?: boolean;
  /** A class, such as `all` for the whole width. */
  of?: string | undefined;
}>;

/**
 * By the path of an API field: its input, its label, and the kind of input. Fields within it belong to it. If an input
 * has several fields, the last one determines the kind.
 */
export type FormFields = Readonly<
  Record<string, readonly [input: string, label: string, about?: InputAbout]>
>;

const fieldOf = (fields: FormFields, name: string) =>
  Object.values(fields).findLast(([input]) => input === name);

export function inputLabel(fields: FormFields, name: string): string {
  return fieldOf(fields, name)?.[1] ?? name;
}

export function aboutInput(fields: FormFields, name: string): InputAbout {
  return fieldOf(fields, name)?.[2] ?? {};
}

type InputKind = Pick<InputAbout, "kind" | "expected" | "exact">;

/** The value that is typed in an input, null if it is empty, or the reason why it cannot be read. */
export function typedIn(form: Form, name: string, about: InputKind = {}) {
  const { expected = "JSON" } = about;
  const { value, fault } = readValue(form, name, about);
  const errors: FieldError[] = fault === undefined ? [] : [{ field: name, fault, expected }];
  return { name, value, errors };
}

function readValue(form: Form, name: string, { kind, exact }: InputKind): ReturnType<typeof jsonIn> {
  if (kind === "json") return jsonIn(form, name, exact ? parseExactly : JSON.parse);
  if (kind === "list") return { value: listIn(form, name) };
  if (kind === "number") return { value: numberIn(form, name) };
  if (kind === "check") return { value: form[name] === "on" };
  if (kind === "time") return { value: utcIn(form, name) ?? null };
  return { value: textIn(form, name) ?? null };
}

/** The text of a shown value in an input; undefined if it stays empty. */
export function shownIn(value: unknown, { kind }: InputKind = {}): string | undefined {
  if (value === null || value === undefined) return undefined;
  if (kind === "check") return value === true ? "on" : undefined;
  if (kind === "list") return (value as readonly string[]).join(", ");
  return kind === "json" ? JSON.stringify(value, null, 2) : String(value);
}

/** The values of a form whose inputs are named like the fields of the API, and the errors of those that cannot be read. */
export function readInputs(form: Form, fields: FormFields) {
  const read = Object.entries(fields).map(([name, [, , about]]) => typedIn(form, name, about));
  return {
    input: Object.fromEntries(read.map(({ name, value }) => [name, value])),
    errors: read.flatMap(({ errors }) => errors),
  };
}

/** The inputs of stored values: the inverse of `readInputs`. */
export function shownInputs(values: Readonly<Record<string, unknown>>, fields: FormFields): Form {
  return Object.fromEntries(
    Object.entries(fields).map(([name, [, , about]]) => [name, shownIn(values[name], about)]),
  );
}

/** The values that are neither null nor undefined. */
export function given<T>(
  values: readonly (readonly [name: string, value: T])[],
): Readonly<Record<string, NonNullable<T>>> {
  return Object.fromEntries(
    values.filter((one): one is [string, NonNullable<T>] => one[1] !== null && one[1] !== undefined),
  );
}

/** A field's label and input. */
type Described = Readonly<{ label: string }> & InputAbout;

const described =
  (kind: InputAbout["kind"]) =>
  (label: string, about: string | InputAbout = {}, more: InputAbout = {}): Described => ({
    ...{ label, kind },
    ...(typeof about === "string" ? { hint: about } : about),
    ...more,
  });

const [text, number, time, check] = [
  described("text"),
  described("number"),
  described("time"),
  described("check"),
];
const [choice, json, area] = [described("choice"), described("json"), described("area")];

type Named = Readonly<Record<string, Described | string>>;

/**
 * The inputs of fields, which are named like them.
 * @param path of what they are within
 * @param prefix of their inputs
 */
export function fieldsNamed(fields: Named, path = "", prefix = ""): FormFields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => {
      const { label, ...about } = typeof field === "string" ? { label: field } : field;
      return [`${path}${name}`, [`${prefix}${name}`, label, about]];
    }),
  );
}

/** The input of a number: the range of its shape, and what applies while it is empty. */
export function numberInput<Name extends string>(
  name: Name,
  ranges: Readonly<Record<Name, Readonly<{ min: number; max: number }>>>,
  current: Readonly<Record<Name, number>>,
): InputAbout {
  return { kind: "number", placeholder: String(current[name]), range: ranges[name] };
}

export const limitNames = ["max_concurrency", "rate_per_second", "rate_burst", "timeout_ms"] as const;

const breakerLabels: Readonly<Record<keyof Breaker, string>> = {
  failure_ratio: "Opens at a failure ratio of (0.05 to 1)",
  min_attempts: "Among at least (attempts)",
  window_s: "Within (seconds)",
  cooldown_s: "Cool-down (seconds)",
  max_cooldown_s: "Maximum cool-down (seconds)",
};

export const breakerNames = Object.keys(breakerShape.fields) as readonly (keyof Breaker)[];

const breaker = Object.fromEntries(
  breakerNames.map((name) => {
    return [name, { label: breakerLabels[name], ...numberInput(name, breakerShape.fields, defaultBreaker) }];
  }),
);

const retry = {
  preset: "Preset",
  base: "Base delay",
  factor: "Factor",
  cap: "Maximum delay",
  schedule: "Schedule; its last delay repeats",
  jitter: "Jitter",
  max_attempts: "Maximum attempts",
  give_up_after: "Give up after",
  expire_unattempted_after: "First attempt within",
  retry_after: "Retry-After of a 429",
};

/** The inputs of settings, where their descriptions leave them open. */
const inputs: Readonly<Record<string, InputAbout>> = {
  body: { options: Object.entries(bodyTexts) },
  template: {
    options: [["", "None: the body as it is"], ...Object.entries(templateTexts)],
    hint: "Only for destinations of the tenant operator.",
  },
  headers: {
    kind: "area",
    placeholder: "X-Api-Key: abc",
    hint: "One header a line. A value that is shown as *** stays as it is; a header that is removed here is no longer sent.",
  },
  ordering: { options: Object.entries(orderTexts.ordering) },
  on_dead: { options: Object.entries(orderTexts.on_dead) },
  ...Object.fromEntries(
    limitNames.map((name) => [name, numberInput(name, limitShape.fields, defaultLimits)]),
  ),
};

/** The first input of a field that has several in the form. */
const firstInputs: Readonly<Record<string, string>> = {
  auth: "auth_kind",
  retry: "preset",
  breaker: "failure_ratio",
};

/** The inputs of a destination: those of its form, and of the forms for its limits and its secret. */
export const destinationLabels: FormFields = {
  ...fieldsNamed({ kind: choice("Kind", { options: Object.entries(kindTexts) }), ...targetInputs }),
  ...Object.fromEntries(
    fieldDescriptions.map(([name, { label, input }]) => {
      return [name, [firstInputs[name] ?? name, label, { ...input, ...inputs[name] }]];
    }),
  ),
  ...fieldsNamed({
    tenant: text("Tenant", { placeholder: "default" }),
    signature: choice("Signs with", {
      options: [
        ["hmac-sha256", "A shared secret (HMAC)"],
        ["ed25519", "A key pair (ed25519)"],
      ],
    }),
    secret: described("password")("Signing secret", "Empty generates a new secret."),
    handshake: check("Ask for the receiver's consent first", "CloudEvents webhook validation (OPTIONS)."),
    secret_version: "Version of the secret",
  }),
  status: ["paused", "Create it paused", { kind: "check", hint: "Events wait until you resume it." }],
  overlap_s: ["overlap_hours", "Overlap (seconds)"],
  "auth.kind": [
    "auth_kind",
    "Authentication",
    {
      options: [
        ["", "None besides the signature"],
        ...Object.entries(authKinds).map(([kind, { label }]) => [kind, label] as const),
      ],
    },
  ],
  ...Object.assign(
    {},
    ...authInputs.map(([, inputs]) => fieldsNamed(Object.fromEntries(inputs), "auth.", "auth_")),
  ),
  ...fieldsNamed(breaker, "breaker."),
  ...fieldsNamed(retry, "retry."),
  "retry.jitter.proportional": ["proportional", "Proportion (0 to 1)"],
  "retry.on": ["on_retry", "HTTP statuses"],
  ...fieldsNamed({ retry: "Always retry", fail: "Never retry" }, "retry.on.", "on_"),
};

/** The inputs of a template in a signature form: each follows the template's prefix. */
export const templateFields = {
  content: "Signed text",
  signature_header: "Header of the signature",
  timestamp_header: "Header of the timestamp",
  id_header: "Header of the event's ID",
  type_header: "Header of the event's type",
  prefix: "Before the signature",
  encoding: "Written in",
  algorithm: "Hash",
  key: "Key",
};

const rate_per_minute = number("Initial rate (per minute)", {
  placeholder: "100",
  range: { min: 1, max: 6000 },
});

export const replayFields: FormFields = {
  destination_id: ["destination", "Destination"],
  since: ["days", "Accepted in the last"],
  until: ["days", "Accepted in the last"],
  ...fieldsNamed({ rate_per_minute }),
};

export const replaysFields: FormFields = {
  destination_ids: ["destination_id", "Destinations"],
  ...fieldsNamed({
    since: time("Accepted since (UTC)", { required: true, step: "1" }),
    until: time("Accepted before (UTC)", { required: true, step: "1" }),
    include: choice("Which"),
    event_types: text("Event types", { placeholder: "all" }),
    tag: text("Tag", { placeholder: "any" }),
    rate_per_minute,
  }),
};

export const keyFields: FormFields = {
  scopes: ["scope_read", "Scopes"],
  ...fieldsNamed({
    name: text("Name", { maxlength: 100, placeholder: "checkout service" }),
    tenant: text("Tenant", "Empty means all tenants.", { placeholder: "acme" }),
    destination_id: text("Polled destination", "The key polls this destination alone, with the scope poll."),
    expires_at: time("Expires (UTC)", "Empty means never."),
    confirm: check("For an agent whose changes a person approves", "What it changes waits under Approvals."),
  }),
};

const HIGHEST = "The highest that a visitor may set.";

/** Visitors' rights and limits, and the portal's appearance. */
const portalFields = {
  may_edit_endpoints: check("Add, change, pause and delete endpoints"),
  may_transform: check("Write transformations"),
  may_write_code: check(
    "Write transformations in code",
    "It runs in isolates of its own. A link gives this only where the tenant's settings do.",
  ),
  may_rotate: check("Rotate signing secrets"),
  may_resend: check("Send deliveries again"),
  may_test: check("Send test events"),
  may_poll: check("Create keys for polled endpoints"),
  may_see_payloads: check(
    "See the contents of events",
    "Without this, visitors see neither contents nor tags of events.",
  ),
  max_endpoints: number(
    "Endpoints at most",
    "The most endpoints that the tenant may have. Empty means no limit.",
  ),
  max_concurrency: number("Highest concurrency", HIGHEST),
  rate_per_second: number("Highest rate per second", HIGHEST),
  language: choice("Language"),
  theme: choice("Theme"),
} satisfies Named;

export const portalLinkFields: FormFields = {
  ...fieldsNamed({
    tenant: text("Tenant", { required: true, placeholder: "acme" }),
    expires_in_s: number(
      "Can be opened for (seconds)",
      "An hour is 3600, a day 86400. At most 604800, seven days. Empty means an hour.",
    ),
    read_only: check("Read only", "The customer can't change anything, whatever is ticked below."),
    return_url: text(
      "Page to return to",
      "An https page of yours. Every page of the portal links back to it.",
      { placeholder: "https://app.example.com/settings" },
    ),
    language: "Language",
    theme: "Theme",
  }),
  ...fieldsNamed(portalFields, "access."),
};

const schema = json("JSON Schema of the data", "JSON Schema 2020-12.", {
  placeholder: '{"type": "object", "required": ["order"]}',
  expected: 'a JSON Schema, such as {"type": "object"}',
  exact: true,
});
const example = json("Example of the data (JSON)", "Must fit the schema.", {
  placeholder: '{"order": 42}',
  exact: true,
});

/** The fields of an event type that can be changed. */
export const eventTypeSettings = fieldsNamed({
  description: text("Description", { maxlength: 1000, placeholder: "An order has been paid." }),
  example,
  schema,
  validate: check("Refuse events that do not fit the schema"),
  retention_days: number(
    "Retention (days)",
    "How long events of the type are kept. Empty uses the retention of the tenant or the deployment.",
  ),
  archived: check("Archived", "Not listed. Its events are still accepted."),
});

export const eventTypeFields: FormFields = {
  ...fieldsNamed({
    name: text("Name", { required: true, maxlength: 128, placeholder: "order.paid" }),
  }),
  ...eventTypeSettings,
};

export const eventTypeImportFields = fieldsNamed({
  document: area("OpenAPI document", "YAML or JSON, up to a megabyte."),
  archive_others: check("Archive event types that the document does not have"),
});

/** The fields of a version that is not published yet. */
export const versionDraftFields = fieldsNamed({
  schema: { ...schema, placeholder: undefined, hint: "Of the new data. JSON Schema 2020-12." },
  example: { ...example, placeholder: undefined },
  conversion: area("Conversion to the version before", {
    placeholder: '{"total": "{{ data.amount.value }}"}',
  }),
});

export const versionDateFields = fieldsNamed({
  deprecated_at: time("Deprecated since (UTC)", "Empty: not deprecated."),
  sunset_at: time("For use until (UTC)", "Empty: no end."),
});

export const eventVersionFields: FormFields = {
  version: ["version", "Version"],
  ...versionDraftFields,
  ...versionDateFields,
};

export const auditFields = fieldsNamed({
  tenant: "Tenant",
  subject: text("ID of what was changed", { maxlength: 200, placeholder: "dst_…" }),
  since: time("From (UTC)"),
  until: time("Before (UTC)"),
});

/** The settings of a tenant that are one input each. */
export const tenantInputFields = fieldsNamed({
  contact_email: text(
    "Contact address",
    "Gets a mail when one of the tenant's destinations fails or recovers. Empty means nobody.",
    { placeholder: "ops@acme.example" },
  ),
  retention_days: number(
    "Retention (days)",
    "How long its events are kept. Empty uses the deployment's retention.",
  ),
  payload_free: check(
    "Remove bodies after delivery",
    "The body of an event is removed once all of its deliveries have been delivered.",
  ),
  functions: check(
    "Run transformations in code",
    "Without this, none runs, and deliveries that need one wait.",
  ),
});

export const tenantFields: FormFields = {
  tenant: ["tenant", "Tenant"],
  ...tenantInputFields,
  ...fieldsNamed(portalFields, "portal."),
  ...fieldsNamed(
    {
      name: text("Name in the portal", { placeholder: "Acme" }),
      accent: text("Accent colour", { placeholder: "#0b6a72" }),
      logo: text(
        "Logo",
        "An https URL, or a PNG, JPEG, GIF or WebP image as data: URL in base64. Empty fields use the deployment's branding.",
        { of: "all", placeholder: "https://cdn.acme.example/logo.svg" },
      ),
    },
    "branding.",
    "brand_",
  ),
};

export const tenantDocumentFields: FormFields = {
  body: ["document", "Configuration"],
  version: ["document", "Version"],
  settings: ["document", "Settings"],
  destinations: ["document", "Destinations"],
  ...fieldsNamed({
    document: area("Configuration (JSON)", { placeholder: '{"version": 1, "destinations": []}' }),
  }),
};

export const tenantDeletionFields = fieldsNamed({
  confirm: text("Name of the tenant", { required: true, maxlength: 64 }),
});

export const deliveryFilters = fieldsNamed({
  tenant: "Tenant",
  destination_id: "Destination",
  type: "Event type",
  tag: "Tag",
  status: text("Status code", { inputmode: "numeric" }),
  reason: "Reason",
  since: time("Accepted since (UTC)", { step: "1" }),
  until: time("Accepted before (UTC)", { step: "1" }),
});

export const searchFields = fieldsNamed({ q: "The search" });

/** An error in the words of a form, and the input that it belongs to: undefined if the form has none for it. */
export type PlacedError = Readonly<{ input: string | undefined; label: string; text: string }>;

/** @param fields of the form; the longest path that leads to an error's field counts */
export function placeErrors(errors: readonly FieldError[], fields: FormFields): readonly PlacedError[] {
  return errors.map(({ field, fault, expected }) => {
    const [path, input, name] = longest(field, fields);
    const label = `${name}${within(field.slice(path.length))}`;
    const text = worded(`${label} ${fault}; expected ${expected}.`, fields);
    return { input, label: name, text };
  });
}

function longest(
  field: string,
  fields: FormFields,
): readonly [path: string, input: string | undefined, label: string] {
  const leads = (path: string) => field === path || /^[.[#]/.test(field.slice(path.length));
  const path = Object.keys(fields)
    .filter((one) => field.startsWith(one) && leads(one))
    .toSorted((a, b) => b.length - a.length)[0];
  const [input, label] = (path !== undefined && fields[path]) || [undefined, spelledOut(field)];
  return [path ?? field, input, label];
}

/** The place in a field: `[1]` is its second entry, `.order.total` and `#/order` are places in its JSON. */
function within(rest: string): string {
  const [, entry, place = ""] = /^(?:\[(\d+)\])?[.#]?(.*)$/s.exec(rest) ?? [];
  return `${entry === undefined ? "" : `, entry ${Number(entry) + 1},`}${place === "" ? "" : ` at ${place}`}`;
}

/** Names of the API's fields in a sentence become their labels: `cooldown_s`, which no English word resembles. */
function worded(text: string, fields: FormFields): string {
  return text.replace(/`?\b[a-z]+(?:_[a-z]+)+\b`?/g, (name) => {
    const bare = name.replaceAll("`", "");
    const path = Object.keys(fields).find((one) => one === bare || one.endsWith(`.${bare}`));
    const label = path && fields[path]?.[1];
    return label ? `“${label}”` : name;
  });
}

function spelledOut(field: string): string {
  const text = field.replaceAll("_", " ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
