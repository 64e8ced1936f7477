/**
 * Endpoints of operational webhooks: destinations of the operator's tenant with the template `svix`
 * (core/svix-operational.ts). Where no event types are given, they get those that have a counterpart in Svix.
 */

import type { Hono } from "hono";
import type { FieldError } from "../../core/result.ts";
import { svixOperational, svixTypeOf } from "../../core/svix-operational.ts";
import { requires } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { apiPath } from "../internal-path.ts";
import { jsonBody } from "../json-body.ts";
import { invalid, problem } from "../problems.ts";
import {
  changeEndpoint,
  createEndpoint,
  type Endpoint,
  type EndpointInput,
  endpointOf,
  endpointUpdate,
  endpointView,
  newEndpoint,
  registerHeaders,
  registerList,
  registerSecret,
  replacing,
  typesIn,
} from "./endpoints.ts";
import type { CallNative } from "./native-api.ts";
import { applicationOf, bodyOf, OPERATIONAL_WEBHOOKS as LIST, unsupported } from "./shapes.ts";

const ONE = `${LIST}/:endpoint`;

export function registerOperationalWebhooks(app: Hono<ApiEnv>, callNative: CallNative): void {
  for (const path of [LIST, `${LIST}/*`])
    app.use(path, async (c, next) =>
      c.get("principal").tenant === undefined ? next() : problem(403, NOT_THE_OPERATOR),
    );

  app.post(LIST, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, newEndpoint);
    if (input instanceof Response) return input;
    return creation(c, callNative, input);
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
    if (!(found instanceof Response)) return change(c, callNative, found, input);
    // As in the Svix API, a `uid` that nothing has is created.
    const name = c.req.param("endpoint");
    if (name.startsWith("dst_") || (input.uid ?? name) !== name) return found;
    return creation(c, callNative, { ...input, uid: name });
  });

  app.delete(ONE, requires("admin"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const removed = await callNative(c, "DELETE", apiPath`/v1/destinations/${found.row.id}`);
    return removed.ok ? c.body(null, 204) : removed.answer;
  });

  registerSecret(app, callNative, ONE);
  registerHeaders(app, callNative, ONE);
}

const NOT_THE_OPERATOR = "The key is bound to a tenant, and operational webhooks are the operator's";

async function creation(c: ApiContext, callNative: CallNative, input: EndpointInput): Promise<Response> {
  const errors = typeErrors(input);
  const application = await applicationOf(c);
  if (errors.length > 0) return invalid(errors);
  if (application instanceof Response) return application;
  return shown(await createEndpoint(c, callNative, application, withTypes(input)));
}

async function change(
  c: ApiContext,
  callNative: CallNative,
  endpoint: Endpoint,
  input: EndpointInput,
): Promise<Response> {
  const errors = typeErrors(input);
  if (errors.length > 0) return invalid(errors);
  return shown(await changeEndpoint(c, callNative, endpoint, replacing(withTypes(input))));
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

/** The answer about an endpoint, as one about that of operational webhooks. */
async function shown(answer: Response): Promise<Response> {
  return answer.ok ? Response.json(shownAs(await answer.json()), { status: answer.status }) : answer;
}

function shownAs({ eventTypes: types, ...view }: ReturnType<typeof endpointView>) {
  const isAll = types !== null && ALL.every((one) => types.includes(one)) && types.length === ALL.length;
  const eventTypes = types === null || isAll ? null : types.map(svixTypeOf);
  return { ...view, eventTypes, filterTypes: eventTypes };
}
