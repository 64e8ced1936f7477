/**
 * Endpoints of operational webhooks: destinations of the operator's tenant with the template `svix`
 * (core/svix-operational.ts). Where no event types are given, they get those that have a counterpart in Svix.
 */

import type { Hono } from "hono";
import { svixOperational, svixTypeOf } from "../../core/operational-message.ts";
import type { FieldError, Result } from "../../core/result.ts";
import type { Application } from "../../features/applications/sql.ts";
import type { Destination } from "../../store/destination.ts";
import { requires } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf, invalid, problem } from "../problems.ts";
import {
  changeEndpoint,
  createEndpoint,
  type EndpointInput,
  endpointOf,
  endpointUpdate,
  endpointView,
  type NamedEndpoint,
  newEndpoint,
  registerDeletion,
  registerHeaders,
  registerList,
  registerSecret,
  replacing,
  typesIn,
} from "./endpoints.ts";
import { applicationOf, bodyOf, OPERATIONAL_WEBHOOKS as LIST, unsupported } from "./shapes.ts";

const ONE = `${LIST}/:endpoint`;

export function registerOperationalWebhooks(app: Hono<ApiEnv>): void {
  for (const path of [LIST, `${LIST}/*`])
    app.use(path, async (c, next) =>
      c.get("principal").tenant === undefined ? next() : problem(403, NOT_THE_OPERATOR),
    );

  app.post(LIST, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, newEndpoint);
    if (input instanceof Response) return input;
    return creation(c, input);
  });

  registerList(app, LIST, (row, application) => shownAs(endpointView(row, application)));

  app.get(ONE, requires("read"), async (c) => {
    const found = await endpointOf(c);
    return found instanceof Response ? found : c.json(shownAs(endpointView(found.row, found.application)));
  });

  app.put(ONE, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, endpointUpdate);
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    if (!(found instanceof Response)) return change(c, found, input);
    // As in the Svix API, a `uid` that nothing has is created.
    const name = c.req.param("endpoint");
    if (name.startsWith("dst_") || (input.uid ?? name) !== name) return found;
    return creation(c, { ...input, uid: name });
  });

  registerDeletion(app, ONE);
  registerSecret(app, ONE);
  registerHeaders(app, ONE);
}

const NOT_THE_OPERATOR = "The key is bound to a tenant, and operational webhooks are the operator's";

async function creation(c: ApiContext, input: EndpointInput): Promise<Response> {
  const errors = typeErrors(input);
  const application = await applicationOf(c);
  if (errors.length > 0) return invalid(errors);
  if (application instanceof Response) return application;
  return shown(c, application, await createEndpoint(c, application, withTypes(input)), 201);
}

async function change(c: ApiContext, endpoint: NamedEndpoint, input: EndpointInput): Promise<Response> {
  const errors = typeErrors(input);
  if (errors.length > 0) return invalid(errors);
  const changed = await changeEndpoint(c, endpoint, replacing(withTypes(input)));
  return shown(c, endpoint.application, changed, 200);
}

const TYPES: Readonly<Record<string, string>> = svixOperational;
const ALL = Object.values(TYPES);

function typeErrors(input: EndpointInput): FieldError[] {
  const given = typesIn(input);
  const others = Array.isArray(given) ? given.filter((one) => !Object.hasOwn(TYPES, one)) : [];
  return others.length === 0 ? [] : [unsupported("eventTypes", Object.keys(TYPES).join(", "))];
}

function withTypes(input: EndpointInput): EndpointInput {
  const given = typesIn(input);
  const types = Array.isArray(given) ? given.map((one) => TYPES[one]) : (given ?? ALL);
  return { ...input, eventTypes: types };
}

function shown(c: ApiContext, application: Application, result: Result<Destination>, status: 200 | 201) {
  return result.kind === "ok"
    ? c.json(shownAs(endpointView(result.value, application)), status)
    : answerOf(result);
}

function shownAs({ eventTypes: types, ...view }: ReturnType<typeof endpointView>) {
  const isAll = types !== null && ALL.every((one) => types.includes(one)) && types.length === ALL.length;
  const eventTypes = types === null || isAll ? null : types.map(svixTypeOf);
  return { ...view, eventTypes, filterTypes: eventTypes };
}
