/**
 * The settings of a destination that can be changed, each described once: its input and its shown value, how it is
 * stored, its label and input on pages, who may set it, and its name in the Svix API. The API's schemas, the forms, the
 * Svix layer and the rights of visitors come from here. inputs.ts has the inputs of targets and of `auth`.
 */
import { z } from "@hono/zod-openapi";
import type { Actor } from "../../core/audit.ts";
import { bodyFormOf, bodyForms } from "../../core/content.ts";
import {
  isReserved,
  MAX_DESCRIPTION,
  metadataLimits,
  UID,
  UID_WORDS,
} from "../../core/destination-fields.ts";
import { eventFilter } from "../../core/event-filter.ts";
import { pinsIn } from "../../core/event-versions.ts";
import { GROUP_NAME } from "../../core/group/name.ts";
import { breakerShape, defaultBreaker, defaultLimits, type Limits, limitShape } from "../../core/limits.ts";
import { templateOf, templates } from "../../core/message-templates.ts";
import { deadEnds, ORDERING_PATH, orderings } from "../../core/order.ts";
import { recordOf } from "../../core/record.ts";
import { retryShape } from "../../core/retry/policy.ts";
import { channelsInEffect, destinationChannels } from "../../core/routing.ts";
import { readAs } from "../../core/shape.ts";
import { namedHeaders, signatureFormsShape } from "../../core/signature-forms.ts";
import { MOST_CODE_BYTES } from "../../core/transform/code.ts";
import { readyTemplate, readyTemplates } from "../../core/transform/ready.ts";
import { type TransformTemplate, templateShape } from "../../core/transform/template.ts";
import type { TransformVersion } from "../../core/transform/versions.ts";
import { zodFieldsOf, zodOf } from "../../core/zod-of.ts";
import { authOf, MASK, maskedHeaders, sealedHeaders } from "../../delivery/authorization.ts";
import { looksLikeId } from "../../ids.ts";
import type { Vault } from "../../secrets/vault.ts";
import {
  breakerOf,
  type Destination,
  limitsOf,
  orderRuleOf,
  storedHeaders,
} from "../../store/destination.ts";
import type { DestinationChange } from "../../store/destinations.ts";
import { currentTransform } from "../../store/transforms.ts";
import { eventType, eventTypePatterns, strict, textField, wholeNumberOf } from "../parameters.ts";
import { authColumn, authInput, authSchema } from "./auth.ts";
import { headersSchema, RESERVED_EXPECTED } from "./headers.ts";

/** Where a value is sealed, for which destination, and who saves it when (epoch ms). */
type Saving = Readonly<{ vault: Vault; id: string; by: Actor; at: number }>;

/** How a field is stored and shown. */
type Stored<G extends z.ZodType, S extends z.ZodType> = Readonly<{
  /** The schema of the input; null resets the field to its default. */
  given: G;
  shown: S;
  /** The shown value of a stored destination. */
  of: (row: Destination) => z.infer<S>;
  /** The columns that a given value sets. */
  columns: (
    given: Exclude<z.infer<G>, undefined>,
    saving: Saving,
  ) => DestinationChange | Promise<DestinationChange>;
}>;

/** An input of the dashboard's form; the options of a choice are in pages/ui/form-fields.ts. */
export type FieldInput = Readonly<{
  kind: "text" | "list" | "json" | "number" | "choice";
  /** The part of the form that has it. */
  part: "name" | "types" | "filter" | "body" | "order" | "limits" | "identity";
  placeholder?: string;
  hint?: string;
  maxlength?: number;
  /** The expected kind of JSON. */
  expected?: string;
}>;

export type SvixName = Readonly<{
  name: string;
  /** A former name, which means the same. */
  former?: string;
  /** The shown value for none; null by default. */
  none?: string;
  /** It is given on creation, and has separate routes from then on. */
  isApart?: true;
}>;

type About = Readonly<{
  /** Its label in the dashboard. The portal's words are in pages/portal/texts. */
  label: string;
  /** Absent where a field has several inputs of its own in the dashboard's form. */
  input?: FieldInput;
  /** Whether visitors of the portal may set it; operators may set everything. */
  visitors?: true;
  /** Its names in the Svix API, where it has it. */
  svix?: SvixName;
  /** Whether only operators may set and see it: not principals that are bound to a tenant. */
  operators?: true;
}>;

function field<G extends z.ZodType, S extends z.ZodType, const A extends About>(
  described: Stored<G, S> & A,
): Stored<G, S> & Pick<A, keyof A & keyof About> {
  return described;
}

/** A limit of core/limits.ts. */
function limit<K extends keyof Limits, const A extends Pick<About, "label" | "visitors" | "svix">>(
  name: K,
  columns: (given: number | null) => DestinationChange,
  about: A,
) {
  const schema: z.ZodType<number> = zodOf(limitShape.fields[name]);
  const input = { kind: "number", part: "limits" } as const;
  const stored = {
    given: schema.nullish(),
    shown: schema,
    of: (row: Destination) => limitsOf(row)[name],
    columns,
  };
  return field({ ...stored, ...about, input });
}

const NO_ID_EXPECTED = "expected a name that does not look like an id of Breakwater";

/** The caller's name for something. It never has the form of an id, because things are found by either. */
export const uidField = textField(UID_WORDS, { pattern: UID }).refine(
  (given) => !looksLikeId(given),
  NO_ID_EXPECTED,
);

const DESCRIPTION_EXPECTED = `expected a string of at most ${MAX_DESCRIPTION} characters`;

const { keys: maxKeys, keyLength, valueLength } = metadataLimits;
const METADATA_EXPECTED = `at most ${maxKeys} keys of 1 to ${keyLength} characters with strings of at most ${valueLength}`;

const wrongMetadata = { error: `expected ${METADATA_EXPECTED}` };
const metadata = recordOf(
  textField(METADATA_EXPECTED, { min: 1, max: keyLength }),
  textField(METADATA_EXPECTED, { max: valueLength }),
  wrongMetadata,
)
  .refine((given) => Object.keys(given).length <= maxKeys, wrongMetadata)
  .openapi({
    type: "object",
    additionalProperties: { type: "string" },
    description: "Keys and values of your own; never sent.",
  });

const strings = { kind: "list", of: { kind: "text" }, nullable: true } as const;
const texts = { kind: "record", of: { kind: "text" } } as const;

/** Its name among those of its tenant. */
export const nameFields = {
  uid: field({
    given: uidField.nullish().describe("Your own name for it, unique among the tenant's destinations."),
    shown: z.string().nullable(),
    of: ({ uid }) => uid,
    columns: (uid) => ({ uid }),
    label: "Your own ID",
    input: {
      kind: "text",
      part: "identity",
      hint: "An ID of your own, unique among the tenant's destinations.",
    },
    svix: { name: "uid" },
  }),
} as const;

const template = zodOf(templateShape);

const code = textField(
  `a module of at most ${MOST_CODE_BYTES} bytes, whose default export is a function`,
).describe(
  "In place of a template: a JavaScript module whose default export is a function of the event. It returns the request, or " +
    "null to cancel the delivery. Where the deployment runs code.",
);

export const transformInput = strict({
  template: z
    .union([z.enum(readyTemplates), template])
    .optional()
    .describe(
      `A template of your own, or the name of a ready one, which is stored as it is now: ${readyTemplates.join(", ")}.`,
    ),
  code: code.optional(),
})
  .refine(
    (given) => (given.template === undefined) !== (given.code === undefined),
    "expected either template or code",
  )
  .openapi("Transform");

export const transformShown = z.object({ template: template.optional(), code: code.optional() });

/** The order of fields by which two templates are compared. */
function ordered(given: TransformTemplate): TransformTemplate {
  const { body, content_type, headers, method, path, query } = given;
  return { body, content_type, headers, method, path, query };
}

/** The source of requests: a template, code, or none: events are sent as they are. */
type TransformSource = Readonly<{ template: TransformTemplate | null }> | Readonly<{ code: string }>;

/** The requested source; null: none. */
export function sourceIn(transform: z.infer<typeof transformInput> | null): TransformSource {
  const { template: given, code } = transform ?? {};
  if (code !== undefined) return { code };
  if (given === undefined) return { template: null };
  return { template: typeof given === "string" ? readyTemplate(given) : ordered(given) };
}

/** The source of a version as the API shows it; null: events are sent as they are. */
export function shownSource({ template, code }: TransformVersion): z.infer<typeof transformShown> | null {
  if (code !== undefined) return { code };
  return template ? { template } : null;
}

/** Types that a destination is pinned to versions of. */
const MOST_PINS = 50;
const PINS_EXPECTED = `expected at most ${MOST_PINS} event types with the numbers of their versions`;
const pinnedVersion = wholeNumberOf("the number of a version, such as 1", 1);

/** By type: so that the same pins are stored in the same way. */
function sortedPins(pins: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(pins).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Which events it takes, and in which form. */
export const contentFields = {
  event_types: field({
    given: eventTypePatterns
      .nullish()
      .describe("The types of events that the destination takes; null means all."),
    shown: zodOf(strings),
    of: ({ eventTypes }) => readAs(strings, eventTypes) ?? null,
    columns: (eventTypes) => ({ eventTypes }),
    label: "Event types",
    input: {
      kind: "list",
      part: "types",
      placeholder: "order.*, invoice.paid",
      hint: "Exact names, or prefix.* for all that begin alike. Empty means all types.",
    },
    visitors: true,
    svix: { name: "eventTypes", former: "filterTypes" },
  }),
  channels: field({
    given: zodOf(destinationChannels)
      .nullish()
      .describe(
        "The destination takes only events that have one of these channels; null means that it takes events whatever their " +
          "channels.",
      ),
    shown: zodOf(strings),
    of: ({ channels }) => channelsInEffect(channels)?.slice() ?? null,
    columns: (channels) => ({ channels }),
    label: "Channels",
    input: {
      kind: "list",
      part: "filter",
      placeholder: "eu, project-42",
      hint: "Only events that were posted with one of these channels. Empty means all events.",
    },
    svix: { name: "channels" },
  }),
  filter: field({
    given: eventFilter.nullish(),
    shown: eventFilter.nullable(),
    of: ({ filter }) => eventFilter.safeParse(filter).data ?? null,
    columns: (filter) => ({ filter }),
    label: "Filter (JSON)",
    input: {
      kind: "json",
      part: "filter",
      placeholder: '{"order.total": {"gte": 100}}',
      expected: 'conditions such as {"order.total": {"gte": 100}}',
    },
    visitors: true,
  }),
  description: field({
    given: z.string(DESCRIPTION_EXPECTED).max(MAX_DESCRIPTION).nullish(),
    shown: z.string().nullable(),
    of: ({ description }) => description,
    columns: (description) => ({ description }),
    label: "Name",
    input: { kind: "text", part: "name", placeholder: "Billing", maxlength: MAX_DESCRIPTION },
    visitors: true,
    svix: { name: "description", none: "" },
  }),
  metadata: field({
    given: metadata.nullish().openapi({ type: ["object", "null"] }),
    shown: zodOf(texts),
    of: (row) => readAs(texts, row.metadata) ?? {},
    columns: (given) => ({ metadata: given }),
    label: "Metadata (JSON)",
    input: {
      kind: "json",
      part: "identity",
      placeholder: '{"team": "billing"}',
      hint: "Never sent.",
      expected: 'an object of strings, such as {"team": "billing"}',
    },
    svix: { name: "metadata" },
  }),
  headers: field({
    given: headersSchema.nullish().openapi({ type: ["object", "null"] }),
    shown: zodOf(texts).openapi({
      description: `Their names; each value is shown as \`${MASK}\`, because it may be a credential.`,
      example: { "x-api-key": MASK },
    }),
    of: (row) => {
      const { values } = storedHeaders(row);
      return maskedHeaders(values, values);
    },
    // Headers are stored sealed; those that are stored plain end with the change.
    columns: async (headers, { vault, id }) => {
      const isEmpty = headers === null || Object.keys(headers).length === 0;
      return { headers: null, sealedHeaders: isEmpty ? null : await sealedHeaders(vault, id, headers) };
    },
    label: "Headers",
    visitors: true,
    svix: { name: "headers", isApart: true },
  }),
  auth: field({
    given: authInput.nullish(),
    shown: authSchema.nullable(),
    of: authOf,
    columns: async (auth, { vault, id }) => ({ auth: await authColumn(vault, id, auth) }),
    label: "Authentication",
  }),
  body: field({
    given: z
      .enum(bodyForms, 'expected "envelope" or "data"')
      .nullish()
      .describe(
        "The part of an event that is sent: the `envelope` with its type, its timestamp and its `data`, or the `data` alone as it " +
          "was posted. Only with `data` does a destination take content that is not JSON.",
      ),
    shown: z.enum(bodyForms),
    of: ({ body }) => bodyFormOf(body),
    columns: (body) => ({ body: body ?? "envelope" }),
    label: "Body",
    input: { kind: "choice", part: "body" },
    visitors: true,
  }),
  template: field({
    given: z
      .enum(templates, `expected one of ${templates.join(", ")}`)
      .nullish()
      .describe(
        "The form in which an operational event is sent: a message for Slack, Discord or Microsoft Teams, an alert for " +
          "PagerDuty, or an operational webhook of Svix, in place of `body`. Only for destinations of the tenant `operator`.",
      ),
    shown: z.enum(templates).nullable(),
    of: ({ template }) => templateOf(template) ?? null,
    columns: (template) => ({ template }),
    label: "Message",
    input: { kind: "choice", part: "body" },
  }),
  transform: field({
    given: transformInput
      .nullish()
      .describe("The request that is sent in place of the event. Null: the event as it is."),
    shown: transformShown.nullable(),
    of: (row) => {
      const current = currentTransform(row);
      return current ? shownSource(current) : null;
    },
    columns: (given, { by, at }) => ({
      transform: { version: 1, after: -1, at, by, ...sourceIn(given) },
    }),
    label: "Transformation",
    visitors: true,
  }),
  event_versions: field({
    given: recordOf(eventType, pinnedVersion, { error: PINS_EXPECTED })
      .refine((given) => Object.keys(given).length <= MOST_PINS, PINS_EXPECTED)
      .nullish()
      .openapi({
        type: "object",
        additionalProperties: { type: "integer", minimum: 1 },
        description:
          "The versions of event types that it gets, by type, for events that are accepted from now on. For a type that is " +
          "not listed, the newest at its creation. Null: for all types.",
      }),
    shown: z.record(z.string(), z.int()),
    of: ({ eventVersions }) => pinsIn(eventVersions)?.at(-1)?.pins ?? {},
    columns: (given, { at }) => ({ eventVersions: [{ pins: sortedPins(given ?? {}), at, after: -1 }] }),
    label: "Versions of event types",
    visitors: true,
  }),
} as const;

/** In which order deliveries are made; for events that are accepted from now on. */
const orderFields = {
  ordering: field({
    given: z
      .enum(orderings, 'expected "destination" or "key"')
      .nullish()
      .describe(
        "Whether deliveries succeed in the order in which their events were accepted: all of them (`destination`), or " +
          "those with the same key (`key`); events without a key are not ordered. Null: in any order.",
      ),
    shown: z.enum(orderings).nullable(),
    of: (row) => orderRuleOf(row)?.by ?? null,
    columns: (ordering) => ({ ordering }),
    label: "Order",
    input: { kind: "choice", part: "order" },
  }),
  ordering_path: field({
    given: textField("a path such as data.order_id: 1 to 10 keys without dots", { pattern: ORDERING_PATH })
      .nullish()
      .describe(
        'With `ordering: "key"`: where in an event its key is, such as `data.order_id`. Null: the event\'s `ordering_key`.',
      ),
    shown: z.string().nullable(),
    of: ({ orderingPath }) => orderingPath,
    columns: (orderingPath) => ({ orderingPath }),
    label: "Key",
    input: {
      kind: "text",
      part: "order",
      placeholder: "data.order_id",
      hint: "Where in an event its key is. Empty: the event's ordering_key.",
    },
  }),
  on_dead: field({
    given: z
      .enum(deadEnds, 'expected "skip" or "hold"')
      .nullish()
      .describe(
        "What follows when an ordered delivery ends as dead: the next one of its key (`skip`, the default), or nothing " +
          "until it is retried or skipped (`hold`).",
      ),
    shown: z.enum(deadEnds),
    of: ({ onDead }) => (onDead === "hold" ? "hold" : "skip"),
    columns: (onDead) => ({ onDead }),
    label: "After a dead delivery",
    input: { kind: "choice", part: "order" },
  }),
} as const;

const signatureForms = zodOf(signatureFormsShape);

/** The forms of the core, none of which may set a header that is reserved for another purpose. */
const signatureFormsInput = signatureForms.superRefine((forms, ctx) => {
  for (const [index, form] of forms.entries()) {
    if (form.form !== "template") continue;
    for (const { field, name } of namedHeaders(form))
      if (isReserved(name))
        ctx.addIssue({ code: "custom", path: [index, field], message: RESERVED_EXPECTED });
  }
});

const retrySpec = zodOf(retryShape);
const breaker = zodFieldsOf(breakerShape.fields);

export const breakerInput = strict({
  failure_ratio: breaker.failure_ratio.nullish(),
  min_attempts: breaker.min_attempts.nullish(),
  window_s: breaker.window_s.nullish(),
  cooldown_s: breaker.cooldown_s.nullish(),
  max_cooldown_s: breaker.max_cooldown_s.nullish(),
});

const GROUP_EXPECTED =
  '"host", or a name of 1 to 64 letters, digits and _ . - that begins with a letter or digit';

/** How requests are ordered, signed, limited and repeated. */
export const sendingFields = {
  ...orderFields,
  signature_forms: field({
    given: signatureFormsInput.nullish(),
    shown: signatureForms.nullable(),
    of: (row) => readAs(signatureFormsShape, row.signatureForms) ?? null,
    columns: (given) => ({ signatureForms: given }),
    label: "Signature forms",
    visitors: true,
  }),
  timeout_ms: limit("timeout_ms", (given) => ({ timeoutMs: given ?? defaultLimits.timeout_ms }), {
    label: "Timeout (ms)",
  }),
  max_concurrency: limit(
    "max_concurrency",
    (given) => ({ maxConcurrency: given ?? defaultLimits.max_concurrency }),
    { label: "Concurrency", visitors: true },
  ),
  rate_per_second: limit(
    "rate_per_second",
    (given) => ({ ratePerSecond: given ?? defaultLimits.rate_per_second }),
    { label: "Rate per second", visitors: true, svix: { name: "throttleRate", former: "rateLimit" } },
  ),
  rate_burst: limit("rate_burst", (rateBurst) => ({ rateBurst }), { label: "Burst" }),
  retry: field({
    given: retrySpec.nullish(),
    shown: retrySpec.nullable(),
    of: ({ retry }) => readAs(retryShape, retry) ?? null,
    columns: (retry) => ({ retry }),
    label: "Retry policy",
  }),
  group: field({
    given: textField(GROUP_EXPECTED, { pattern: GROUP_NAME })
      .nullish()
      .describe(
        "The group whose limits it shares with the others of that name, of all tenants; `host`: with all of its host. Only " +
          "operators set and see it.",
      ),
    shown: z.string().nullable().optional(),
    of: ({ group }) => group,
    columns: (group) => ({ group }),
    label: "Group",
    input: {
      kind: "text",
      part: "limits",
      hint: 'A name; all destinations with it share that group\'s limits. "host" joins all with the same host.',
      maxlength: 64,
    },
    operators: true,
  }),
  breaker: field({
    given: breakerInput.nullish(),
    shown: zodOf(breakerShape),
    of: breakerOf,
    columns: (given) => {
      const { failure_ratio, min_attempts, window_s, cooldown_s, max_cooldown_s } =
        given === null ? defaultBreaker : given;
      return {
        breakerFailureRatio: orDefault(failure_ratio, defaultBreaker.failure_ratio),
        breakerMinAttempts: orDefault(min_attempts, defaultBreaker.min_attempts),
        breakerWindowS: orDefault(window_s, defaultBreaker.window_s),
        breakerCooldownS: orDefault(cooldown_s, defaultBreaker.cooldown_s),
        breakerMaxCooldownS: orDefault(max_cooldown_s, defaultBreaker.max_cooldown_s),
      };
    },
    label: "Circuit breaker",
  }),
} as const;

function orDefault<T>(value: T | null | undefined, fallback: T): T | undefined {
  return value === null ? fallback : value;
}

export const destinationFields = { ...nameFields, ...contentFields, ...sendingFields } as const;

type DestinationField = keyof typeof destinationFields;

type Fields = typeof destinationFields;

/** The fields that visitors of the portal may set, besides the URL. */
export type VisitorField = {
  [K in DestinationField]: Fields[K] extends Readonly<{ visitors: true }> ? K : never;
}[DestinationField];

/** Fields that are one line of text: the portal's form has an input for each. */
export type VisitorText = {
  [K in VisitorField]: Fields[K] extends Readonly<{ input: Readonly<{ kind: "text" }> }> ? K : never;
}[VisitorField];

/** The description of any field, for code that treats all of them alike. */
export const fieldDescriptions: readonly (readonly [DestinationField, About])[] =
  entriesOf(destinationFields);

export const visitorTexts = fieldDescriptions.flatMap(([name, { visitors, input }]) =>
  visitors && input?.kind === "text" ? [{ ...input, name: name as VisitorText }] : [],
);

/** Fields that the input of a visitor of the portal may have. */
export const forVisitors: ReadonlySet<string> = new Set([
  ...["url", "tenant"],
  ...fieldDescriptions.flatMap(([name, { visitors }]) => (visitors ? [name] : [])),
]);

/** Fields that principals bound to a tenant neither set nor see. */
export const operatorFields: readonly DestinationField[] = fieldDescriptions.flatMap(
  ([name, { operators }]) => (operators ? [name] : []),
);

function entriesOf<T extends object>(fields: T): readonly (readonly [keyof T & string, T[keyof T]])[] {
  return Object.entries(fields) as [keyof T & string, T[keyof T]][];
}

type Described = Readonly<Record<string, Readonly<{ given: z.ZodType; shown: z.ZodType }>>>;

/** The fields of an input's schema. */
export function givenShape<F extends Described>(fields: F): { [K in keyof F]: F[K]["given"] } {
  return Object.fromEntries(Object.entries(fields).map(([name, { given }]) => [name, given])) as never;
}

/** The fields of the shown destination's schema. */
export function shownShape<F extends Described>(fields: F): { [K in keyof F]: F[K]["shown"] } {
  return Object.fromEntries(Object.entries(fields).map(([name, { shown }]) => [name, shown])) as never;
}

type Viewed = Readonly<Record<string, Readonly<{ shown: z.ZodType; of: (row: Destination) => unknown }>>>;

/** The shown values of a stored destination. */
export function shownFields<F extends Viewed>(
  fields: F,
  row: Destination,
): { [K in keyof F]: z.infer<F[K]["shown"]> } {
  return Object.fromEntries(Object.entries(fields).map(([name, { of }]) => [name, of(row)])) as never;
}

type Given = { [K in DestinationField]?: z.infer<(typeof destinationFields)[K]["given"]> };

/** The columns that an input sets, except its target: the default for null; none for omitted fields. */
export async function columnsOf(saving: Saving, input: Given): Promise<DestinationChange> {
  const columns = entriesOf(destinationFields).map(([name, { columns }]) => {
    const given = input[name];
    return given === undefined ? {} : columns(given as never, saving);
  });
  return Object.assign({}, ...(await Promise.all(columns)));
}
