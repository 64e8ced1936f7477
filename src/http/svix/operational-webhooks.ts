/**
 * Endpoints of operational webhooks: destinations of the operator's tenant with the template `svix`
 * (core/svix-operational.ts). Where no event types are given, they get those that have a counterpart in Svix.
 */

import type { Hono } from "hono";
import { svixOperational, svixTypeOf } from "../../core/operational-message.ts";
import { refuseBound } from "../../core/principal.ts";
import type { ApiEnv } from "../context.ts";
import { answerOf } from "../problems.ts";
import { type EndpointInput, endpointView, registerKind, typesIn } from "./endpoints.ts";
import { OPERATIONAL_WEBHOOKS as LIST, refuseFields, unsupported } from "./shapes.ts";

export function registerOperationalWebhooks(app: Hono<ApiEnv>): void {
  for (const path of [LIST, `${LIST}/*`])
    app.use(path, async (c, next) => {
      const refused = refuseBound(c.get("principal"), "operational webhooks belong to the operator");
      return refused ? answerOf(refused) : next();
    });
  registerKind(app, {
    list: LIST,
    viewOf: (row, application) => shownAs(endpointView(row, application)),
    read: withTypes,
  });
}

const TYPES: Readonly<Record<string, string>> = svixOperational;
const ALL = Object.values(TYPES);

function withTypes(input: EndpointInput): EndpointInput {
  const given = typesIn(input);
  if (!Array.isArray(given)) return { ...input, eventTypes: given ?? ALL };
  const areKnown = given.every((one) => typeof one === "string" && Object.hasOwn(TYPES, one));
  refuseFields([!areKnown && unsupported("eventTypes", Object.keys(TYPES).join(", "))]);
  return { ...input, eventTypes: given.map((one) => TYPES[one]) };
}

function shownAs({ eventTypes: types, ...view }: ReturnType<typeof endpointView>) {
  const isAll = types !== null && ALL.every((one) => types.includes(one)) && types.length === ALL.length;
  const eventTypes = types === null || isAll ? null : types.map(svixTypeOf);
  return { ...view, eventTypes, filterTypes: eventTypes };
}
