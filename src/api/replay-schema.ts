/** A replay in JSON: what may be posted, and what is shown. */
import { z } from "@hono/zod-openapi";
import { eventTypePattern } from "./names.ts";
import { strict } from "./strict.ts";
import { timeParam } from "./time-range.ts";

const RATE_EXPECTED = "expected a whole number from 1 to 6000";
const INCLUDE_EXPECTED = 'expected "dead" or "delivered"';
const TYPES_EXPECTED = "expected a list of 1 to 100 event types or patterns";

export const replayStates = ["running", "paused", "completed", "cancelled"] as const;

export const newReplay = strict({
  destination_id: z.string({ error: "expected the id of a destination" }),
  since: timeParam.openapi({
    description: "Events accepted then or later; a time that has passed.",
    example: "2026-11-20T09:00:00Z",
  }),
  until: timeParam.openapi({
    description: "Events accepted before that; a time after `since`.",
    example: "2026-11-20T10:00:00Z",
  }),
  event_types: z
    .array(eventTypePattern, { error: TYPES_EXPECTED })
    .min(1, { error: TYPES_EXPECTED })
    .max(100, { error: TYPES_EXPECTED })
    .nullish(),
  rate_per_minute: z
    .int({ error: RATE_EXPECTED })
    .min(1, { error: RATE_EXPECTED })
    .max(6000, { error: RATE_EXPECTED })
    .default(100)
    .openapi({ description: "How it begins; it goes up to ten times that, and down to a tenth." }),
  include: z.enum(["dead", "delivered"], { error: INCLUDE_EXPECTED }).default("dead").openapi({
    description: "`delivered` sends history again: the same ids, the same bytes.",
  }),
}).openapi("NewReplay");

const time = z.iso.datetime();

export const replaySchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    destination_id: z.string(),
    include: z.enum(["dead", "delivered"]),
    event_types: z.array(z.string()).nullable(),
    since: time,
    until: time,
    rate_per_minute: z.number(),
    state: z.enum(replayStates),
    reason: z.string().nullable().openapi({
      description: "Why it is slow (`doubtful`), still (`stuck`, `destination_paused`) or cancelled.",
    }),
    total: z.int().openapi({ description: "Deliveries that it meant when it began." }),
    moved: z.int().openapi({ description: "Those of them that it has set to wait for sending." }),
    delivered: z.int().openapi({ description: "Those of them that have been delivered since." }),
    failed: z.int().openapi({ description: "Those of them that have ended otherwise since." }),
    pace_per_minute: z.number().openapi({ description: "How fast it is at the moment." }),
    created_at: time,
    updated_at: time,
    ended_at: time.nullable(),
  })
  .openapi("Replay");
