/** Fields that inputs of several tools have, and what several results show. */
import { z } from "@hono/zod-openapi";
import { wholeNumberFrom } from "../../features/parameters.ts";
import { idPatterns } from "../../ids.ts";
import type { Destination } from "../../store/destination.ts";
import { type AgentCall, beginning, outside } from "./tool.ts";

function idField(kind: keyof typeof idPatterns, example: string) {
  const error = `expected an id of the kind ${kind === "agentAction" ? "action" : kind}, as ${example}`;
  return z.string(error).regex(idPatterns[kind], error).openapi({ example });
}

export const actionIdField = idField("agentAction", "act_8m2x0f7q9a4r6t1v3w5y");
export const deliveryIdField = idField("delivery", "dlv_0jkm7tkww1kam_8m2x0f7q9a4r6t1v3w5y");
export const destinationIdField = idField("destination", "dst_8m2x0f7q9a4r6t1v3w5y");
export const eventIdField = idField("event", "evt_0jkm7tkww1kam");
export const replayIdField = idField("replay", "rpl_8m2x0f7q9a4r6t1v3w5y");

const AT_EXPECTED = "expected the `at` of an attempt, as the delivery has it";

export const attemptTimeField = z
  .string(AT_EXPECTED)
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, AT_EXPECTED)
  .describe("The `at` of the attempt, as the delivery has it.");

/** The most entries of a page: an agent's context is small. */
const MOST_ENTRIES = 50;

export const pageLimitField = wholeNumberFrom(1, MOST_ENTRIES)
  .default(10)
  .describe(`The number of entries in a page, 1 to ${MOST_ENTRIES}; 10 by default.`);

/** The names that a customer has given its destination. */
export function nameShown({ url, description, uid }: Pick<Destination, "url" | "description" | "uid">) {
  return outside({
    url: beginning(url, 500),
    ...(description && { description: beginning(description, 200) }),
    ...(uid && { uid }),
  });
}

/** Where people see it: operators at the dashboard, visitors in the portal, which has no page of an event. */
export function linkTo({ origin, principal }: AgentCall, kind: "destinations" | "events", id: string) {
  if (principal.visit === undefined) return `${origin}/dashboard/${kind}/${id}`;
  return kind === "destinations" ? `${origin}/portal/endpoints/${id}` : undefined;
}
