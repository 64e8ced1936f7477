/** What an event may be posted with beside its type and data: who gets it, tags, channels, a time to live, request headers. */

import { z } from "@hono/zod-openapi";
import { recordOf } from "../../core/record.ts";
import type { FieldError } from "../../core/result.ts";
import { eventChannels } from "../../core/routing.ts";

import type { EventFault, EventOptions } from "../../ingest/bundle.ts";
import { areDistinct, headerName, headerValue } from "../destinations/headers.ts";

const MAX_DESTINATIONS = 100;
const MAX_TAGS = 10;
const MAX_TTL_S = 30 * 86_400;
const MAX_HEADERS = 10;
const MAX_HEADER_BYTES = 2048;

const DESTINATIONS_EXPECTED = `expected a list of 1 to ${MAX_DESTINATIONS} ids of destinations`;
const TAG_EXPECTED = "expected 1 to 64 letters, digits and _ . : / @ = + -";
const TAGS_EXPECTED = `expected a list of 1 to ${MAX_TAGS} tags`;
const TTL_EXPECTED = `expected a whole number of seconds from 1 to ${MAX_TTL_S}`;
const HEADERS_EXPECTED = `expected at most ${MAX_HEADERS} headers, each named once, of ${MAX_HEADER_BYTES} bytes together`;

/** A tag of an event. */
export const eventTag = z
  .string({ error: TAG_EXPECTED })
  .regex(/^[A-Za-z0-9_.:/@=+-]{1,64}$/, { error: TAG_EXPECTED })
  .openapi({ example: "import-2026-11" });

/** The fields of an event that are its options. */
export const optionFields = {
  destination_ids: z
    .array(z.string({ error: "expected the id of a destination" }), { error: DESTINATIONS_EXPECTED })
    .min(1, { error: DESTINATIONS_EXPECTED })
    .max(MAX_DESTINATIONS, { error: DESTINATIONS_EXPECTED })
    .optional()
    .openapi({
      description:
        "Only these of the tenant's destinations get the event, as far as their `event_types`, `channels` and `filter` take it.",
    }),
  tags: z
    .array(eventTag, { error: TAGS_EXPECTED })
    .min(1, { error: TAGS_EXPECTED })
    .max(MAX_TAGS, { error: TAGS_EXPECTED })
    .optional()
    .openapi({
      description: "Names by which deliveries can be listed and replayed. They are not sent.",
    }),
  channels: eventChannels.optional().openapi({
    description:
      "Destinations with `channels` get the event only when it has one of theirs; those without get it whatever its " +
      "channels. They are not sent.",
  }),
  ttl: z
    .int({ error: TTL_EXPECTED })
    .min(1, { error: TTL_EXPECTED })
    .max(MAX_TTL_S, { error: TTL_EXPECTED })
    .optional()
    .openapi({
      description:
        "Seconds after which deliveries that have not succeeded are given up (`expired`), if their destination's policy " +
        "does not give up earlier. Counts from when the event is accepted, or from `deliver_at`.",
    }),
  headers: recordOf(headerName, headerValue, { error: "expected an object of strings" })
    .refine(areFewAndSmall, { error: HEADERS_EXPECTED })
    .optional()
    .openapi({
      type: "object",
      additionalProperties: { type: "string" },
      description:
        "Headers to send with this event's deliveries. The destination's own headers and Breakwater's are set over " +
        "them. They are stored like the data: no place for secrets.",
    }),
  validate: z
    .boolean({ error: "expected true or false" })
    .optional()
    .openapi({
      description:
        "With true, `data` has to fit the schema of its type in the catalogue (`/v1/event-types`), even if the type does " +
        "not demand it of every event.",
    }),
};

function areFewAndSmall(headers: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(headers);
  const bytes = Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  return names.length <= MAX_HEADERS && areDistinct(names) && bytes <= MAX_HEADER_BYTES;
}

type Fields = { [K in keyof typeof optionFields]?: z.infer<(typeof optionFields)[K]> | undefined };

/** Undefined when there are none, so that nothing is stored or sent of them. */
export function optionsOf({
  destination_ids,
  tags,
  channels,
  ttl,
  headers,
  validate,
}: Fields): EventOptions | undefined {
  const options = {
    ...(destination_ids && { destinationIds: destination_ids }),
    ...(tags && { tags }),
    ...(channels && { channels }),
    ...(ttl !== undefined && { ttlSeconds: ttl }),
    ...(headers && Object.keys(headers).length > 0 && { headers }),
    ...(validate && { validate }),
  };
  return Object.keys(options).length > 0 ? options : undefined;
}

/** @param fieldOf how an error names a field of the i-th event */
export function optionErrors(
  faults: readonly EventFault[],
  fieldOf: (i: number, field: string) => string,
): FieldError[] {
  return faults.map(({ place, field, ...rest }) => ({ field: fieldOf(place, field), ...rest }));
}
