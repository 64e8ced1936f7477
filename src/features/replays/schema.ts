/** Replays as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { replayReasons } from "../../core/reasons.ts";
import {
  documented,
  eventTag,
  eventTypePatterns,
  listField,
  strict,
  textField,
  time,
  timeParam,
  trueOrFalse,
  wholeNumberFrom,
} from "../parameters.ts";

const includes = ["dead", "delivered", "missing"] as const;

export const replayStates = ["running", "paused", "completed", "cancelled"] as const;

export const newReplay = strict({
  destination_id: textField("the id of a destination"),
  since: timeParam.openapi({
    description: "Only events that were accepted at this time or later; a time in the past.",
    example: "2026-11-20T09:00:00Z",
  }),
  until: timeParam.openapi({
    description: "Only events that were accepted before this time; it is after `since`.",
    example: "2026-11-20T10:00:00Z",
  }),
  event_types: eventTypePatterns.nullish().describe("Only events of these types; all when left out."),
  tag: eventTag.nullish().describe("Only events with this tag; all when left out."),
  rate_per_minute: wholeNumberFrom(1, 6000)
    .default(100)
    .describe("The rate at first; it adapts between a tenth and ten times of this."),
  include: z
    .enum(includes, 'expected "dead", "delivered" or "missing"')
    .default("dead")
    .describe(
      "Which deliveries to send. `delivered` repeats history: the same ids, the same bytes. `missing` are events of the " +
        "destination's tenant that have no delivery to it, because it did not exist when they were accepted, or did not " +
        "take them.",
    ),
  matching: trueOrFalse
    .optional()
    .describe(
      "Of `missing`: whether only events are sent that match the destination's present settings (`true`, unless " +
        "given otherwise), or all of its tenant's. Content that is not JSON goes only to destinations with " +
        '`body: "data"` in any case.',
    ),
}).openapi("NewReplay");

/** The most destinations that are replayed at once, each by a replay of its own. */
export const MOST_DESTINATIONS = 25;

export const replaysAtOnce = newReplay
  .omit({ destination_id: true })
  .extend({
    destination_ids: listField(z.string(), `1 to ${MOST_DESTINATIONS} destinations`, {
      ...{ min: 1, max: MOST_DESTINATIONS },
    }).describe("An id that is given twice counts once."),
  })
  .openapi("NewReplays");

export const replaySchema = documented("Replay", {
  id: z.string(),
  tenant: z.string(),
  destination_id: z.string(),
  include: z.enum(includes),
  matching: z.boolean().optional().describe("Only for `missing`: whether the destination's settings apply."),
  event_types: z.array(z.string()).nullable(),
  tag: z.string().nullable(),
  since: time,
  until: time,
  rate_per_minute: z.number(),
  state: z.enum(replayStates),
  reason: z
    .enum(replayReasons)
    .nullable()
    .describe(
      "Why it is slower (`doubtful`: too many attempts fail), requeues nothing now (`stuck`: the destination is " +
        "blocked, or what was requeued still waits; `destination_paused`), or is paused or cancelled (`manual`, " +
        "`destination_deleted`).",
    ),
  total: z
    .int()
    .nullable()
    .describe(
      "Deliveries that matched when it started. Null while a replay of `missing` runs, which finds them one by one.",
    ),
  requeued: z.int().describe("How many of them it has requeued, or planned."),
  delivered: z.int().describe("How many of those have been delivered since."),
  failed: z.int().describe("How many of those have ended otherwise since."),
  current_rate_per_minute: z.number().describe("The rate now, adapted to the success of its deliveries."),
  created_at: time,
  updated_at: time,
  ended_at: time.nullable(),
});

export type ReplaysAtOnce = z.infer<typeof replaysAtOnce>;
export type NewReplay = z.infer<typeof newReplay>;
export type ReplayView = z.infer<typeof replaySchema>;
