/** Applications: each is the tenant that is named by its id. */

import { z } from "@hono/zod-openapi";
import type { Hono, MiddlewareHandler } from "hono";
import { limitShape } from "../../core/limits.ts";
import {
  applicationView,
  createApplication,
  getApplications,
  refuseApplications,
  removeApplication,
  updateApplication,
} from "../../features/applications/service.ts";
import type { Application, ApplicationChange } from "../../features/applications/sql.ts";
import { uidField } from "../../features/destinations/fields.ts";
import { destinationChange } from "../../features/destinations/schema.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf } from "../problems.ts";
import {
  applicationOf,
  bodyOf,
  flag,
  idempotencyKeyOf,
  listOf,
  orderedQuery,
  queryOf,
  uidTaken,
} from "./shapes.ts";

export function registerApplications(app: Hono<ApiEnv>): void {
  app.post("/api/v1/app", requires("admin"), jsonBody(), async (c) => {
    const query = queryOf(c, z.object({ get_if_exists: flag }));
    const input = await bodyOf(c, applicationInput);
    if (query instanceof Response) return query;
    if (input instanceof Response) return input;
    const created = await createFrom(c, input);
    if (created.kind !== "ok") return answerOf(created);
    const { row, isNew, isRepeat } = created.value;
    if (isNew || isRepeat || query.get_if_exists === true)
      return c.json(applicationView(row), isNew || isRepeat ? 201 : 200);
    return uidTaken("application", input.uid);
  });

  app.get("/api/v1/app", requires("read"), async (c) => {
    const query = queryOf(c, listQuery);
    if (query instanceof Response) return query;
    const { limit, iterator: after, order } = query;
    const page = { after, limit: limit + 1, descending: order === "descending" };
    const listed = await getApplications(callerIn(c), page);
    if (listed.kind !== "ok") return answerOf(listed);
    return c.json(listOf(listed.value.map(applicationView), limit, ({ id }) => id));
  });

  app.get("/api/v1/app/:app", requires("read"), async (c) => {
    const row = await applicationOf(c);
    return row instanceof Response ? row : c.json(applicationView(row));
  });

  app.put("/api/v1/app/:app", requires("admin"), ofOperator, jsonBody(), async (c) => {
    const input = await bodyOf(c, applicationInput);
    if (input instanceof Response) return input;
    const before = await applicationOf(c);
    if (!(before instanceof Response)) return changeAs(c, before, columnsOf(input));
    // As in the Svix API, a `uid` that nothing has is created.
    const name = c.req.param("app");
    if (isApplicationId(name) || (input.uid ?? name) !== name) return before;
    const created = await createFrom(c, { ...input, uid: name });
    if (created.kind !== "ok") return answerOf(created);
    const { row, isNew } = created.value;
    return isNew ? c.json(applicationView(row), 201) : uidTaken("application", name);
  });

  app.patch("/api/v1/app/:app", requires("admin"), ofOperator, jsonBody(), async (c) => {
    const input = await bodyOf(c, applicationInput.partial());
    if (input instanceof Response) return input;
    const before = await applicationOf(c);
    if (before instanceof Response) return before;
    const { uid, name, metadata } = input;
    return changeAs(c, before, { uid, name, metadata, ratePerSecond: rateIn(input) });
  });

  app.delete("/api/v1/app/:app", requires("admin"), ofOperator, async (c) => {
    const row = await applicationOf(c);
    if (row instanceof Response) return row;
    const removed = await removeApplication(callerIn(c), row.id);
    return removed.kind === "ok" ? c.body(null, 204) : answerOf(removed);
  });
}

/** Middleware: 403 to a key that is bound to a tenant. */
const ofOperator: MiddlewareHandler<ApiEnv> = async (c, next) => {
  const refusal = refuseApplications(c.get("principal"));
  if (refusal) return answerOf(refusal);
  await next();
  return;
};

const noExclusion = z.literal("false", { error: "expected false: the list has all applications" }).optional();

const listQuery = z.object({
  ...orderedQuery,
  exclude_apps_with_no_endpoints: noExclusion,
  exclude_apps_with_disabled_endpoints: noExclusion,
  exclude_apps_with_svix_play_endpoints: noExclusion,
});

const NAME_EXPECTED = "expected a string of 1 to 256 characters";
const RATE_EXPECTED = "expected a whole number from 1 to 10000";

/** Attempts per second. */
export const rateField = z
  .int({ error: RATE_EXPECTED })
  .min(1, { error: RATE_EXPECTED })
  .max(limitShape.fields.rate_per_second.max, { error: RATE_EXPECTED })
  .nullish();

export const applicationInput = z.object({
  name: z
    .string({ error: NAME_EXPECTED })
    .min(1, { error: NAME_EXPECTED })
    .max(256, { error: NAME_EXPECTED }),
  uid: uidField.nullish(),
  metadata: destinationChange.shape.metadata,
  throttleRate: rateField,
  rateLimit: rateField,
});

type ApplicationInput = z.infer<typeof applicationInput>;

/** The rate by its name of today or by the former one; undefined where neither is given. */
export function rateIn(input: {
  throttleRate?: number | null | undefined;
  rateLimit?: number | null | undefined;
}) {
  return input.throttleRate === undefined ? input.rateLimit : input.throttleRate;
}

function columnsOf(input: ApplicationInput) {
  const { name, uid = null, metadata = null } = input;
  return { name, uid, metadata, ratePerSecond: rateIn(input) ?? null };
}

/** The application that the input describes: a new one, or the one that there is. */
export function createFrom(c: ApiContext, input: ApplicationInput) {
  return createApplication(callerIn(c), { ...columnsOf(input), idempotencyKey: idempotencyKeyOf(c) });
}

async function changeAs(c: ApiContext, before: Application, change: ApplicationChange): Promise<Response> {
  const done = await updateApplication(callerIn(c), { before, change });
  return done.kind === "ok" ? c.json(applicationView(done.value)) : answerOf(done);
}

function isApplicationId(name: string): boolean {
  return name.startsWith("app_");
}
