/**
 * The parts of Svix's API that an import reads, as its public OpenAPI document has them:
 * https://api.svix.com/api/v1/openapi.json. Older servers have other names for some fields. Unknown fields are ignored.
 */
import { z } from "zod";
import { numberOf } from "../../src/core/json-value.ts";

/** A name that can be a segment of a path, as `.` and `..` cannot. */
const name = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,256}$/)
  .refine((given) => !/^\.+$/.test(given));

/** A field that may be missing. */
const or = <T, D>(schema: z.ZodType<T>, otherwise: D) =>
  schema.nullish().transform((given) => given ?? otherwise);

const metadata = or(z.record(z.string(), z.string()), {});
const uid = or(name, null);
const description = or(z.string(), "");
const rate = z.preprocess((given) => numberOf(given) ?? given, z.number().nullish());

export const applicationOut = z
  .object({ id: name, uid, name: z.string(), metadata, throttleRate: rate, rateLimit: rate })
  .transform(({ rateLimit, throttleRate, ...others }) => ({
    ...others,
    throttleRate: throttleRate ?? rateLimit ?? null,
  }));

export type SvixApplication = Readonly<z.infer<typeof applicationOut>>;

const names = z.array(z.string()).nullish();

export const endpointOut = z
  .object({
    ...{ id: name, uid, url: z.string(), metadata, description, disabled: or(z.boolean(), false) },
    ...{ eventTypes: names, filterTypes: names, channels: names, throttleRate: rate, rateLimit: rate },
  })
  .transform(({ rateLimit, throttleRate, filterTypes, eventTypes, channels, ...others }) => ({
    ...others,
    channels: channels ?? [],
    eventTypes: eventTypes ?? filterTypes ?? null,
    throttleRate: throttleRate ?? rateLimit ?? null,
  }));

export const endpointSecretOut = z.object({ key: z.string() });

export const endpointHeadersOut = z.object({
  headers: z.record(z.string(), z.string()),
  sensitive: z.array(z.string()),
});

/** A transformation, OAuth or mutual TLS, which may be on or missing. */
export const switchOut = z.object({ enabled: z.boolean().optional(), code: z.string().nullish() });

/** The part of Breakwater's own document that shows whether destinations take channels. */
export const documentOut = z.object({
  components: z.object({
    schemas: z.object({
      NewDestination: z.object({ properties: z.object({ channels: z.unknown().optional() }) }),
    }),
  }),
});

/** Parts of an endpoint that change its requests, without a counterpart in Breakwater. */
export const extras = ["transformation", "oauth-config", "mtls-config"] as const;
export type Extra = (typeof extras)[number];

/** An endpoint with the details that separate requests read. */
export type SvixEndpoint = Readonly<z.infer<typeof endpointOut>> &
  Readonly<{
    secret: string;
    /** The headers whose values are shown. */
    headers: Readonly<Record<string, string>>;
    /** The names of the other headers. */
    sensitive: readonly string[];
    extras: readonly Extra[];
  }>;

export const eventTypeOut = z
  .object({
    ...{ name, description, archived: or(z.boolean(), false), deprecated: or(z.boolean(), false) },
    schemas: or(z.record(z.string(), z.unknown()), null),
    groupName: or(z.string(), null),
    featureFlag: z.string().nullish(),
    featureFlags: names,
  })
  .transform(({ featureFlag, featureFlags, ...others }) => ({
    ...others,
    featureFlags: featureFlags ?? (featureFlag ? [featureFlag] : []),
  }));

export type SvixEventType = Readonly<z.infer<typeof eventTypeOut>>;

export const svixPage = z.object({
  data: z.array(z.unknown()),
  iterator: z.string().nullish(),
  done: z.boolean(),
});
