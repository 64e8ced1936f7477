/** The inputs and results of MCP Events (SEP-3415). Unknown members are ignored. */
import { z } from "@hono/zod-openapi";
import { wholeNumberOf } from "../parameters.ts";

const NAME_EXPECTED = "expected the name of an event that events/list has";
const ARGUMENTS_EXPECTED = 'expected an object of conditions on data, such as {"order.total": {"gte": 100}}';
const CURSOR_EXPECTED = "expected a cursor that this server has given, or null";

const milliseconds = wholeNumberOf("milliseconds, a whole number that is not negative", 0).nullish();

const subscribed = {
  name: z.string(NAME_EXPECTED).max(256, NAME_EXPECTED),
  arguments: z.record(z.string(), z.unknown(), ARGUMENTS_EXPECTED).default({}),
};

const URL_EXPECTED = "expected an https URL";
const urlField = z.string(URL_EXPECTED).max(2048, `${URL_EXPECTED} of at most 2048 characters`);

const resumed = {
  cursor: z.string(CURSOR_EXPECTED).nullish(),
  maxAgeMs: milliseconds,
};

export const subscribeParams = z.object({
  ...subscribed,
  ...resumed,
  delivery: z.object(
    {
      mode: z.string("expected webhook"),
      url: urlField,
      secret: z.string("expected whsec_ and the base64 of 24 to 64 random bytes"),
    },
    'expected {"mode": "webhook", "url": …, "secret": …}',
  ),
  ttlMs: milliseconds,
});

export const unsubscribeParams = z.object({
  ...subscribed,
  delivery: z.object({ url: urlField }, 'expected {"url": …}'),
});

const MOST_POLLED = 100;

export const pollParams = z.object({
  ...subscribed,
  ...resumed,
  maxEvents: wholeNumberOf("a whole number of 1 or more", 1)
    .default(50)
    .transform((asked) => Math.min(asked, MOST_POLLED)),
});

export const listParams = z.object({ cursor: z.string(CURSOR_EXPECTED).nullish() });

export type SubscribeParams = z.output<typeof subscribeParams>;
export type UnsubscribeParams = z.output<typeof unsubscribeParams>;
export type PollParams = z.output<typeof pollParams>;
