/** Versions of event types as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { MOST_TEMPLATE } from "../../core/transform/template.ts";
import { strict, timeParam } from "../parameters.ts";

const CONVERSION_EXPECTED = `expected a text of at most ${MOST_TEMPLATE} characters`;
const conversion = z
  .string({ error: CONVERSION_EXPECTED })
  .min(1, { error: CONVERSION_EXPECTED })
  .max(MOST_TEMPLATE, { error: CONVERSION_EXPECTED })
  .describe(
    "Makes `data` of the version before of this one's: a JSON value with Liquid in its strings, in the language of " +
      "transformations.",
  );

const schema = z
  .unknown()
  .refine((given) => given !== undefined && given !== null, { error: "expected a JSON Schema" });

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
    .describe("Since when endpoints should not get it any more; deliveries say it in `Deprecation`."),
  sunset_at: timeParam
    .nullable()
    .optional()
    .describe("When it is to end; deliveries say it in `Sunset`. Nothing happens then by itself."),
}).openapi("EventVersionChange");

export const eventVersionSchema = z
  .object({
    version: z.int(),
    schema: z.unknown().describe("Null when there is none."),
    example: z.unknown().describe("Null when there is none."),
    conversion: z.string().nullable().describe("To the version before; null of the first one."),
    published_at: z.iso.datetime(),
    deprecated_at: z.iso.datetime().nullable(),
    sunset_at: z.iso.datetime().nullable(),
  })
  .openapi("EventVersion", {
    required: ["version", "conversion", "published_at", "deprecated_at", "sunset_at"],
  });

export const eventVersionsSchema = z
  .object({ data: z.array(eventVersionSchema).describe("The newest first.") })
  .openapi("EventVersions");

export const versionEndpointSchema = z
  .object({
    destination_id: z.string(),
    tenant: z.string(),
    version: z.int().nullable().describe("Null where what is stored cannot be read."),
  })
  .openapi("VersionEndpoint");

export const versionCheckSchema = z
  .object({
    looked_back_to: z.iso.datetime().nullable().describe("Null: all recorded events."),
    skipped: z.int().describe("Events without content: erased, or not JSON."),
    tenants: z.array(
      z.object({
        tenant: z.string(),
        events: z.int(),
        refused: z.int().describe("Do not fit the new schema."),
        failed: z.int().describe("Fit it, and the conversion fails."),
        unfit: z.int().describe("Are converted to what does not fit the version before."),
        faults: z.array(z.string()),
      }),
    ),
  })
  .openapi("EventVersionCheck");

export type EventVersionFields = z.infer<typeof newEventVersion>;
export type EventVersionChange = z.infer<typeof eventVersionChange>;
export type EventVersionView = z.infer<typeof eventVersionSchema>;
export type VersionCheck = z.infer<typeof versionCheckSchema>;
