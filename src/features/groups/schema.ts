/** Groups as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { groupLimitShape } from "../../core/group/limits.ts";
import { breakerShape } from "../../core/limits.ts";
import { zodFieldsOf, zodOf } from "../../core/zod-of.ts";
import { breakerInput } from "../destinations/fields.ts";
import { documented, strict, time } from "../parameters.ts";

const limits = zodFieldsOf(groupLimitShape.fields);

export const groupInput = strict({
  max_concurrency: limits.max_concurrency.nullish(),
  rate_per_second: limits.rate_per_second.nullish(),
  rate_burst: limits.rate_burst.nullish(),
  breaker: breakerInput.nullish(),
}).openapi("GroupLimits");

const fields = {
  name: z.string(),
  ...limits,
  breaker: zodOf(breakerShape),
  created_at: time.nullable().describe("Null if it has the default limits."),
  updated_at: time.nullable(),
};

export const groupSchema = documented("Group", fields);

export const groupWithState = documented("GroupWithState", {
  ...fields,
  state: z
    .object({
      circuit: z.enum(["closed", "open", "half_open"]),
      circuit_until: time.nullable(),
      held_until: time.nullable(),
      window: z.int().describe("Attempts in flight allowed now, up to `max_concurrency`."),
      in_flight: z.int().describe("Connections that members have been given."),
      waiting: z.int().describe("Members that wait for their turn."),
      tenants: z.int().describe("Tenants that send now, or wait."),
    })
    .nullable()
    .describe("Null if it cannot be read at the moment."),
});

/** The input of `PUT /v1/groups/{name}`; omitted fields get their defaults. */
export type GroupFields = z.infer<typeof groupInput>;
export type GroupJson = z.infer<typeof groupSchema>;
export type GroupStateJson = z.infer<typeof groupWithState>;
