/** Event types and their versions as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { MOST_TEMPLATE } from "../../core/transform/template.ts";
import { documented, strict, textField, time, timeParam, trueOrFalse } from "../parameters.ts";
import { retentionDaysField } from "../retention/field.ts";

export const newEventType = strict({
  description: textField("a string of at most 1000 characters", { max: 1000 }).nullish(),
  schema: z
    .unknown()
    .optional()
    .describe(
      "A JSON Schema (2020-12) of `data`, of 16,384 characters at most. `$ref` leads to `#/$defs` only, a `pattern` has a " +
        "form that is quick to search, and a keyword that would not be checked is refused.",
    ),
  example: z
    .unknown()
    .optional()
    .describe("An example of `data`, of 16,384 characters at most; it fits the schema."),
  validate: trueOrFalse
    .optional()
    .describe(
      "With true, events of this type whose `data` does not fit the schema are refused; false by default.",
    ),
  archived: trueOrFalse
    .optional()
    .describe("With true, the type is no longer listed. Its events are taken, and validated, as before."),
  retention_days: retentionDaysField.optional(),
}).openapi("NewEventType");

/** The type's name in a path. */
export const typeParam = z.object({
  name: z.string().openapi({ description: "The type, as events name it.", example: "invoice.paid" }),
});

export const typeSchema = z
  .object({
    name: z.string(),
    description: z.string().nullable(),
    schema: z.unknown().describe("A JSON Schema of `data`; null when there is none."),
    example: z.unknown().describe("An example of `data`; null when there is none."),
    validate: z.boolean(),
    archived: z.boolean(),
    version: z.int().describe("The newest version, to which `schema` and `example` belong."),
    retention_days: retentionDaysField,
    created_at: time,
    updated_at: time,
  })
  .openapi("EventType", {
    required: [
      "name",
      "description",
      "validate",
      "archived",
      "version",
      "retention_days",
      "created_at",
      "updated_at",
    ],
  });

/** The input of `PUT /v1/event-types/{name}`; omitted fields are removed. */
export type EventTypeFields = z.infer<typeof newEventType>;
export type EventTypeView = z.infer<typeof typeSchema>;

const DOCUMENT_EXPECTED = "expected an OpenAPI document: an object, or its text as YAML or JSON";

export const eventTypeImport = strict({
  document: z.union([z.string(), z.record(z.string(), z.unknown())], DOCUMENT_EXPECTED).openapi({
    description:
      "An OpenAPI document, or its text as YAML or JSON. Its `webhooks` are the types; `x-breakwater-conversion` of an operation " +
      "is the conversion of a schema that has changed.",
    example: "webhooks: { invoice.paid: { post: { description: An invoice was paid } } }",
  }),
  dry_run: trueOrFalse.optional().describe("With true, nothing is changed."),
  archive_others: trueOrFalse
    .optional()
    .describe("With true, types that the document does not have are archived."),
}).openapi("EventTypeImport");

const importActions = ["create", "change", "publish", "archive", "keep", "refuse"] as const;
export type ImportAction = (typeof importActions)[number];

export const importedTypesSchema = documented("ImportedEventTypes", {
  types: z.array(
    z.object({
      name: z.string().openapi({ example: "invoice.paid" }),
      action: z
        .enum(importActions)
        .describe(
          "`change`: in place. `publish`: as the next version. `keep`: it is as in the document. `refuse`: only in a dry run; " +
            "otherwise the import is refused as a whole.",
        ),
      version: z.int().nullable().describe("The newest version afterwards."),
      errors: z.array(z.string()).openapi({ description: "Why it is refused.", example: [] }),
    }),
  ),
});

// ── Versions ──

const conversion = textField(`a text of at most ${MOST_TEMPLATE} characters`, {
  min: 1,
  max: MOST_TEMPLATE,
}).describe(
  "Makes `data` of the previous version from this version's: a JSON value with Liquid in its strings, in the language of " +
    "transformations.",
);

const schema = z.unknown().refine((given) => given !== undefined && given !== null, "expected a JSON Schema");

export const newEventVersion = strict({
  schema: schema.describe("A JSON Schema of `data`, as an event type's."),
  example: z.unknown().optional().describe("An example of `data` that fits the schema."),
  conversion: conversion.optional(),
}).openapi("NewEventVersion");

export const eventVersionDraft = strict({
  schema: newEventVersion.shape.schema,
  conversion: conversion.optional(),
}).openapi("EventVersionDraft");

export const eventVersionChange = strict({
  conversion: conversion.optional(),
  deprecated_at: timeParam
    .nullable()
    .optional()
    .describe("From when on endpoints should no longer get it; sent in the header `Deprecation`."),
  sunset_at: timeParam
    .nullable()
    .optional()
    .describe("When it is to end; sent in the header `Sunset`. Nothing happens automatically."),
}).openapi("EventVersionChange");

export const eventVersionSchema = z
  .object({
    version: z.int(),
    schema: z.unknown().describe("Null when there is none."),
    example: z.unknown().describe("Null when there is none."),
    conversion: z.string().nullable().describe("To the version before; null for the first one."),
    published_at: time,
    deprecated_at: time.nullable(),
    sunset_at: time.nullable(),
  })
  .openapi("EventVersion", {
    required: ["version", "conversion", "published_at", "deprecated_at", "sunset_at"],
  });

export const eventVersionsSchema = documented("EventVersions", {
  data: z.array(eventVersionSchema).describe("The newest first."),
});

export const versionEndpointSchema = documented("VersionEndpoint", {
  destination_id: z.string(),
  tenant: z.string(),
  version: z.int().nullable().describe("Null if the stored value cannot be read."),
});

export const versionCheckSchema = documented("EventVersionCheck", {
  looked_back_to: time.nullable().describe("Null: all recorded events."),
  skipped: z.int().describe("Events without content: erased, or not JSON."),
  tenants: z.array(
    z.object({
      tenant: z.string(),
      events: z.int(),
      refused: z.int().describe("Do not fit the new schema."),
      failed: z.int().describe("Fit it, but their conversion fails."),
      unfit: z.int().describe("Are converted, but the result does not fit the version before."),
      faults: z.array(z.string()),
    }),
  ),
});

export type EventVersionFields = z.infer<typeof newEventVersion>;
export type EventVersionChange = z.infer<typeof eventVersionChange>;
export type EventVersionView = z.infer<typeof eventVersionSchema>;
export type VersionCheck = z.infer<typeof versionCheckSchema>;
