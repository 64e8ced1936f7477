/** Pages of a polled destination as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { CONSUMER, PAGE_EVENTS } from "../../core/inbox.ts";
import { eventNumber } from "../../ids.ts";
import { documented, listField, strict, textField, time, timeParam, wholeNumberFrom } from "../parameters.ts";

const consumer = textField("1 to 64 letters, digits and _ -", { pattern: CONSUMER }).openapi({
  description: "Each consumer has its own position.",
  example: "billing",
});

/** A whole number in a query, and its default. */
function wholeNumber(most: number, fallback: number, description: string, least = 1) {
  const error = `expected a whole number from ${least} to ${most}`;
  return z
    .string()
    .regex(/^\d{1,6}$/, error)
    .transform(Number)
    .refine((given) => given >= least && given <= most, error)
    .default(fallback)
    .openapi({ type: "integer", minimum: least, maximum: most, default: fallback, description });
}

const HALF_A_DAY_S = 43_200;

export const pollQuery = strict({
  consumer: consumer.default("default"),
  limit: wholeNumber(PAGE_EVENTS, 100, "Events of the page at most. It ends earlier at 1 MiB of bodies."),
  wait_s: wholeNumber(
    30,
    0,
    "How long the answer waits for an event if there is none. It comes within a second of an event's acceptance.",
    0,
  ),
  visibility_s: wholeNumber(
    HALF_A_DAY_S,
    60,
    "How long no other request gets the page; after that it is handed out again.",
  ),
});

const EVENT_EXPECTED = "expected the id of an event of the page";

/** The number of an event. */
const eventField = z
  .string(EVENT_EXPECTED)
  .transform((given, ctx): number => {
    const number = eventNumber(given);
    if (number !== undefined) return number;
    ctx.addIssue({ code: "custom", message: EVENT_EXPECTED });
    return z.NEVER;
  })
  .openapi({ type: "string", example: "evt_0r6c9y0z5n1g3" });

const LIST_EXPECTED = `a list of 1 to ${PAGE_EVENTS}`;

const returned = strict({ id: eventField, retry_after_s: wholeNumberFrom(0, HALF_A_DAY_S).default(0) });

export const commitInput = strict({
  consumer: consumer.default("default"),
  iterator: textField("the iterator of a page").openapi({ example: "billing.42" }),
  acknowledge: listField(eventField, LIST_EXPECTED, { min: 1, max: PAGE_EVENTS })
    .optional()
    .describe("Only these events of the page; when left out, all that are not returned."),
  return: listField(returned, LIST_EXPECTED, { max: PAGE_EVENTS })
    .optional()
    .describe("Events of the page that this consumer gets again, after the given number of seconds."),
}).openapi("PollCommit");

export const seekInput = strict({
  consumer: consumer.default("default"),
  since: timeParam.nullable().openapi({
    description: "The consumer begins anew, up to a minute before this time; null: with the oldest event.",
    type: ["string", "null"],
    format: "date-time",
  }),
}).openapi("PollSeek");

const polledEvent = documented("PolledEvent", {
  id: z.string(),
  type: z.string(),
  attempt: z.int().describe("From 1, as `webhook-attempt`."),
  headers: z
    .record(z.string(), z.string())
    .describe("The headers that an https receiver would get, with lower-case names."),
  body: z.string().optional().describe("Byte for byte as it is signed."),
  body_base64: z.string().optional().describe("Of content that is not UTF-8, instead of `body`."),
  fault: z
    .string()
    .optional()
    .describe(
      "Why the event could not be converted to the version of its type that the destination gets: there is no body. " +
        "Return it to get it again once the conversion is corrected.",
    ),
});

export const pollPage = documented("PollPage", {
  data: z.array(polledEvent),
  iterator: z.string().openapi({ description: "Commits the page.", example: "billing.42" }),
  done: z.boolean().describe("Whether there was nothing more."),
});

export const consumerList = documented("PollConsumers", {
  data: z.array(
    documented("PollConsumer", {
      name: z.string(),
      lag: z.object({
        events: z
          .int()
          .describe("Events that it has not committed: handed out, returned, and not fetched yet."),
        is_more: z.boolean().describe("Whether there are more than were counted."),
        seconds: z.int().describe("How long the oldest of them has been ready to fetch."),
      }),
      pages: z.int().describe("Pages that are handed out."),
      returned: z.int().describe("Returned events that will be handed out again."),
      fetched_at: time.nullable().describe("Accurate to the minute."),
      committed_at: time.nullable(),
    }),
  ),
});

export type ConsumerList = z.infer<typeof consumerList>;
export type PollQuery = z.infer<typeof pollQuery>;
export type CommitInput = z.infer<typeof commitInput>;
export type SeekInput = z.infer<typeof seekInput>;
export type PollPage = z.infer<typeof pollPage>;
