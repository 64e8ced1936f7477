/**
 * The words that pages have for the API's fields, and the input of a form at which an error of the API is shown. The one
 * place for both, so that a person never reads the API's names. Pure.
 */
import type { FieldError } from "../../core/result.ts";
import { fieldDescriptions } from "../../features/destinations/fields.ts";
import { authInputs, targetInputs } from "../../features/destinations/inputs.ts";

/** By the path of an API field: the input that it is typed in, and its label. Fields within it belong to it. */
export type FormFields = Readonly<Record<string, readonly [input: string, label: string]>>;

/** The inputs of a form that are named like its fields. */
export function fieldsNamed(labels: Readonly<Record<string, string>>): FormFields {
  return Object.fromEntries(Object.entries(labels).map(([name, label]) => [name, [name, label]]));
}

const breaker = {
  "breaker.failure_ratio": ["failure_ratio", "Opens at a failure ratio of (0.05 to 1)"],
  "breaker.min_attempts": ["min_attempts", "Among at least (attempts)"],
  "breaker.window_s": ["window_s", "Within (seconds)"],
  "breaker.cooldown_s": ["cooldown_s", "Cool-down (seconds)"],
  "breaker.max_cooldown_s": ["max_cooldown_s", "Maximum cool-down (seconds)"],
} as const satisfies FormFields;

const retry = {
  "retry.preset": ["preset", "Preset"],
  "retry.base": ["base", "Base delay"],
  "retry.factor": ["factor", "Factor"],
  "retry.cap": ["cap", "Maximum delay"],
  "retry.schedule": ["schedule", "Schedule; its last delay repeats"],
  "retry.jitter": ["jitter", "Jitter"],
  "retry.jitter.proportional": ["proportional", "Proportion (0 to 1)"],
  "retry.max_attempts": ["max_attempts", "Maximum attempts"],
  "retry.give_up_after": ["give_up_after", "Give up after"],
  "retry.expire_unattempted_after": ["expire_unattempted_after", "First attempt within"],
  "retry.retry_after": ["retry_after", "Retry-After of a 429"],
  "retry.on": ["on_retry", "HTTP statuses"],
  "retry.on.retry": ["on_retry", "Always retry"],
  "retry.on.fail": ["on_fail", "Never retry"],
} as const satisfies FormFields;

/** The first input of a field that has several in the form. */
const firstInputs: Readonly<Record<string, string>> = {
  auth: "auth_kind",
  retry: "preset",
  breaker: "failure_ratio",
};

const settings: FormFields = Object.fromEntries(
  fieldDescriptions.map(([name, { label }]) => [name, [firstInputs[name] ?? name, label]]),
);

function labelled(
  inputs: readonly (readonly [string, { label: string }])[],
  path = "",
  prefix = "",
): FormFields {
  return Object.fromEntries(
    inputs.map(([name, { label }]) => [`${path}${name}`, [`${prefix}${name}`, label]]),
  );
}

/** The inputs of a destination: those of its form, and of the forms for its limits and its secret. */
export const destinationLabels: FormFields = {
  kind: ["kind", "Kind"],
  ...labelled(Object.entries(targetInputs)),
  ...settings,
  tenant: ["tenant", "Tenant"],
  signature: ["signature", "Signs with"],
  secret: ["secret", "Signing secret"],
  handshake: ["handshake", "Ask for the receiver's consent first"],
  status: ["paused", "Create it paused"],
  secret_version: ["secret_version", "Version of the secret"],
  overlap_s: ["overlap_hours", "Overlap (seconds)"],
  "auth.kind": ["auth_kind", "Authentication"],
  ...Object.assign({}, ...authInputs.map(([, inputs]) => labelled(inputs, "auth.", "auth_"))),
  ...breaker,
  ...retry,
};

/** The inputs of a template in a signature form: each follows the template's prefix. */
export const templateFields = {
  content: ["content", "Signed text"],
  signature_header: ["signature_header", "Header of the signature"],
  timestamp_header: ["timestamp_header", "Header of the timestamp"],
  id_header: ["id_header", "Header of the event's ID"],
  type_header: ["type_header", "Header of the event's type"],
  prefix: ["prefix", "Before the signature"],
  encoding: ["encoding", "Written in"],
  algorithm: ["algorithm", "Hash"],
  key: ["key", "Key"],
} as const satisfies FormFields;

export const replayFields = {
  destination_id: ["destination", "Destination"],
  since: ["days", "Accepted in the last"],
  until: ["days", "Accepted in the last"],
  rate_per_minute: ["rate_per_minute", "Initial rate (per minute)"],
} as const satisfies FormFields;

export const replaysFields = {
  destination_ids: ["destination_id", "Destinations"],
  since: ["since", "Accepted since"],
  until: ["until", "Accepted before"],
  event_types: ["event_types", "Event types"],
  tag: ["tag", "Tag"],
  include: ["include", "Which"],
  rate_per_minute: ["rate_per_minute", "Initial rate (per minute)"],
} as const satisfies FormFields;

export const keyFields = {
  name: ["name", "Name"],
  scopes: ["scope_read", "Scopes"],
  tenant: ["tenant", "Tenant"],
  destination_id: ["destination_id", "Polled destination"],
  expires_at: ["expires_at", "Expires (UTC)"],
  confirm: ["confirm", "Approval"],
} as const satisfies FormFields;

const portalRules = {
  may_edit_endpoints: ["may_edit_endpoints", "Add, change, pause and delete endpoints"],
  may_transform: ["may_transform", "Write transformations"],
  may_write_code: ["may_write_code", "Write transformations in code"],
  may_rotate: ["may_rotate", "Rotate signing secrets"],
  may_resend: ["may_resend", "Send deliveries again"],
  may_test: ["may_test", "Send test events"],
  may_poll: ["may_poll", "Create keys for polled endpoints"],
  may_see_payloads: ["may_see_payloads", "See the contents of events"],
  max_endpoints: ["max_endpoints", "Endpoints at most"],
  max_concurrency: ["max_concurrency", "Highest concurrency"],
  rate_per_second: ["rate_per_second", "Highest rate per second"],
} as const satisfies FormFields;

const portalAppearance = {
  language: ["language", "Language"],
  theme: ["theme", "Theme"],
} as const satisfies FormFields;

/** The same inputs, for fields that are within another. */
function inside(path: string, fields: FormFields): FormFields {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [`${path}.${name}`, field]));
}

export const portalLinkFields: FormFields = {
  tenant: ["tenant", "Tenant"],
  expires_in_s: ["expires_in_s", "Can be opened for (seconds)"],
  read_only: ["read_only", "Read only"],
  return_url: ["return_url", "Page to return to"],
  ...inside("access", portalRules),
  ...portalAppearance,
};

export const eventTypeFields = {
  name: ["name", "Name"],
  description: ["description", "Description"],
  schema: ["schema", "JSON Schema of the data"],
  example: ["example", "Example of the data (JSON)"],
  validate: ["validate", "Refuse events that do not fit the schema"],
  archived: ["archived", "Archived"],
  retention_days: ["retention_days", "Retention (days)"],
} as const satisfies FormFields;

export const eventTypeImportFields = {
  document: ["document", "OpenAPI document"],
  archive_others: ["archive_others", "Archive event types that the document does not have"],
} as const satisfies FormFields;

export const eventVersionFields = {
  version: ["version", "Version"],
  schema: ["schema", "JSON Schema of the data"],
  example: ["example", "Example of the data (JSON)"],
  conversion: ["conversion", "Conversion to the version before"],
  deprecated_at: ["deprecated_at", "Deprecated since (UTC)"],
  sunset_at: ["sunset_at", "For use until (UTC)"],
} as const satisfies FormFields;

export const auditFields = {
  tenant: ["tenant", "Tenant"],
  subject: ["subject", "ID of what was changed"],
  since: ["since", "From (UTC)"],
  until: ["until", "Before (UTC)"],
} as const satisfies FormFields;

export const tenantFields: FormFields = {
  tenant: ["tenant", "Tenant"],
  contact_email: ["contact_email", "Contact address"],
  retention_days: ["retention_days", "Retention (days)"],
  payload_free: ["payload_free", "Remove bodies after delivery"],
  functions: ["functions", "Run transformations in code"],
  ...inside("portal", { ...portalRules, ...portalAppearance }),
  "branding.name": ["brand_name", "Name in the portal"],
  "branding.logo": ["brand_logo", "Logo"],
  "branding.accent": ["brand_accent", "Accent colour"],
};

export const tenantDocumentFields: FormFields = {
  body: ["document", "Configuration"],
  version: ["document", "Version"],
  settings: ["document", "Settings"],
  destinations: ["document", "Destinations"],
  // The last of an input's labels is the one that its field has.
  document: ["document", "Configuration (JSON)"],
};

export const tenantDeletionFields: FormFields = {
  confirm: ["confirm", "Name of the tenant"],
};

export const deliveryFilters = {
  tenant: ["tenant", "Tenant"],
  destination_id: ["destination_id", "Destination"],
  type: ["type", "Event type"],
  tag: ["tag", "Tag"],
  status: ["status", "Status code"],
  reason: ["reason", "Reason"],
  since: ["since", "Accepted since"],
  until: ["until", "Accepted before"],
} as const satisfies FormFields;

export const searchFields = { q: ["q", "The search"] } as const satisfies FormFields;

/** An error in the words of a form, and the input that it belongs to: undefined where the form has none for it. */
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

/** Where in a field: `[1]` is its second entry, `.order.total` and `#/order` are places in its JSON. */
function within(rest: string): string {
  const [, entry, place = ""] = /^(?:\[(\d+)\])?[.#]?(.*)$/s.exec(rest) ?? [];
  return `${entry === undefined ? "" : `, entry ${Number(entry) + 1},`}${place === "" ? "" : ` at ${place}`}`;
}

/** Names of the API's fields in a sentence become their labels: `cooldown_s`, which no word of English looks like. */
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
