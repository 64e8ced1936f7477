/** Erasures as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { documented, strict, tenantName, textField, time, timeParam } from "../parameters.ts";

export const newErasure = strict({
  tenant: tenantName.describe("Whose events are erased."),
  event_id: textField("the id of an event").optional().describe("Only this event."),
  since: timeParam.optional().describe("Only events that were accepted at this time or later."),
  until: timeParam
    .optional()
    .describe("Only events that were accepted before this time; it is after `since`, and now by default."),
  everything: z
    .literal(true, "expected true, or nothing")
    .optional()
    .describe("All events of the tenant up to now."),
}).openapi("NewErasure", {
  description: "With exactly one of `event_id`, `everything`, or a range of `since` and `until`.",
});

export const erasureSchema = documented("Erasure", {
  id: z.string(),
  tenant: z.string(),
  event_id: z.string().nullable(),
  since: time.nullable(),
  until: time.nullable().describe("Events that were accepted from then on are not erased."),
  everything: z.boolean(),
  state: z
    .enum(["running", "completed", "incomplete"])
    .describe("`incomplete`: everything has been erased except the events in `unreadable_bundles`."),
  events: z.int().describe("Events whose content has been erased so far."),
  deliveries: z.int().describe("The deliveries of these events, whatever their state was."),
  cancelled: z.int().describe("Deliveries that had not ended, and were cancelled."),
  unreadable_bundles: z
    .array(z.int())
    .describe(
      "Bundles that could not be read, a hundred at most: they may have content that was to be erased. Once the operator has " +
        "repaired or removed them, another erasure erases the rest.",
    ),
  created_at: time,
  ended_at: time.nullable(),
});

export type NewErasure = z.infer<typeof newErasure>;
export type ErasureView = z.infer<typeof erasureSchema>;
