/** Event types as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { strict, trueOrFalse } from "../parameters.ts";
import { retentionDaysField } from "../retention/field.ts";

const DESCRIPTION_EXPECTED = "expected a string of at most 1000 characters";

export const newEventType = strict({
  description: z.string({ error: DESCRIPTION_EXPECTED }).max(1000, { error: DESCRIPTION_EXPECTED }).nullish(),
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
    version: z.int().describe("The newest version, which `schema` and `example` are of."),
    retention_days: retentionDaysField,
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
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

/** What `PUT /v1/event-types/{name}` takes; what is left out is removed. */
export type EventTypeFields = z.infer<typeof newEventType>;
export type EventTypeView = z.infer<typeof typeSchema>;

const DOCUMENT_EXPECTED = "expected an OpenAPI document: an object, or its text as YAML or JSON";

export const eventTypeImport = strict({
  document: z.union([z.string(), z.record(z.string(), z.unknown())], { error: DOCUMENT_EXPECTED }).openapi({
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

export const importedTypesSchema = z
  .object({
    types: z.array(
      z.object({
        name: z.string().openapi({ example: "invoice.paid" }),
        action: z
          .enum(importActions)
          .describe(
            "`change`: in place. `publish`: as the next version. `keep`: it is as in the document. `refuse`: in a dry run " +
              "alone; the import is refused as a whole.",
          ),
        version: z.int().nullable().describe("The newest version afterwards."),
        errors: z.array(z.string()).openapi({ description: "Why it is refused.", example: [] }),
      }),
    ),
  })
  .openapi("ImportedEventTypes");
