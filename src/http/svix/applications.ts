/** Applications: each is the tenant that is named by its id. */

import { z } from "@hono/zod-openapi";
import type { Hono, MiddlewareHandler } from "hono";
import { changesBetween } from "../../core/audit.ts";
import { limitsSchema } from "../../core/limits.ts";
import type { Principal } from "../../core/principal.ts";
import {
  type Application,
  type ApplicationChange,
  changeApplication,
  deleteApplication,
  findApplication,
  insertApplication,
  listApplications,
} from "../../features/applications/sql.ts";
import { changed } from "../../features/audit/routes.ts";
import { uidField } from "../../features/destinations/fields.ts";
import { destinationChange } from "../../features/destinations/schema.ts";
import { applicationIdFor, newApplicationId } from "../../ids.ts";
import { endDeleted } from "../../jobs/deleted-destinations.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { checked, invalid, type ProblemResponse, problem } from "../problems.ts";
import {
  applicationOf,
  bodyOf,
  flag,
  idempotencyKeyOf,
  listOf,
  missing,
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
    const created = await createApplication(c, input);
    if (created instanceof Response) return created;
    if (created.isNew || created.isRepeat || query.get_if_exists === true)
      return c.json(applicationView(created.row), created.isNew || created.isRepeat ? 201 : 200);
    return uidTaken("application", input.uid);
  });

  app.get("/api/v1/app", requires("read"), async (c) => {
    const query = queryOf(c, listQuery);
    if (query instanceof Response) return query;
    const { limit, iterator: after, order } = query;
    const { db } = c.get("services");
    const { tenant } = c.get("principal");
    if (tenant !== undefined) {
      const own = after === undefined ? await findApplication(db, tenant) : undefined;
      return c.json(listOf(own?.id === tenant ? [applicationView(own)] : [], limit, ({ id }) => id));
    }
    const page = { after, limit: limit + 1, descending: order === "descending" };
    const rows = await listApplications(db, page);
    return c.json(listOf(rows.map(applicationView), limit, ({ id }) => id));
  });

  app.get("/api/v1/app/:app", requires("read"), async (c) => {
    const row = await applicationOf(c);
    return row instanceof Response ? row : c.json(applicationView(row));
  });

  app.put("/api/v1/app/:app", requires("admin"), ofOperator, jsonBody(), async (c) => {
    const input = await bodyOf(c, applicationInput);
    if (input instanceof Response) return input;
    const before = await applicationOf(c);
    const { uid = null } = input;
    if (!(before instanceof Response)) return change(c, before, { uid, ...columnsOf(input) });
    // As in the Svix API, a `uid` that nothing has is created.
    const name = c.req.param("app");
    if (isApplicationId(name) || (input.uid ?? name) !== name) return before;
    const created = await createApplication(c, { ...input, uid: name });
    if (created instanceof Response) return created;
    return created.isNew ? c.json(applicationView(created.row), 201) : uidTaken("application", name);
  });

  app.patch("/api/v1/app/:app", requires("admin"), ofOperator, jsonBody(), async (c) => {
    const input = await bodyOf(c, applicationInput.partial());
    if (input instanceof Response) return input;
    const before = await applicationOf(c);
    if (before instanceof Response) return before;
    const { uid, name, metadata } = input;
    return change(c, before, { uid, name, metadata, ratePerSecond: rateIn(input) });
  });

  app.delete("/api/v1/app/:app", requires("admin"), ofOperator, async (c) => {
    const row = await applicationOf(c);
    if (row instanceof Response) return row;
    const services = c.get("services");
    const deleted = await deleteApplication(services.db, row.id, services.now());
    // The sweep cancels what waits for the others.
    for (const id of deleted.slice(0, ENDED_AT_ONCE)) services.background(endDeleted(services, id));
    changed(c, "application.deleted", { id: row.id, tenant: row.id });
    return c.body(null, 204);
  });
}

/**
 * Applications are the operator's: their names lead to their messages, and their rates limit their tenants. Refused before
 * anything is looked up, so that no answer says which names are taken.
 */
function refuseBound({ tenant }: Principal): ProblemResponse<403> | undefined {
  if (tenant === undefined) return undefined;
  return problem(403, "The key is bound to a tenant: it creates, changes and deletes no applications");
}

/** Middleware: 403 to a key that is bound to a tenant. */
const ofOperator: MiddlewareHandler<ApiEnv> = async (c, next) => {
  const refusal = refuseBound(c.get("principal"));
  if (refusal) return refusal;
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

/** Deleted endpoints whose deliveries are cancelled before the next sweep. */
const ENDED_AT_ONCE = 10;

const NAME_EXPECTED = "expected a string of 1 to 256 characters";
const RATE_EXPECTED = "expected a whole number from 1 to 10000";

/** Attempts per second. */
export const rateField = z
  .int({ error: RATE_EXPECTED })
  .min(1, { error: RATE_EXPECTED })
  .max(limitsSchema.shape.rate_per_second.maxValue ?? 1, { error: RATE_EXPECTED })
  .nullish();

export const metadataField = destinationChange.shape.metadata;

export const applicationInput = z.object({
  name: z
    .string({ error: NAME_EXPECTED })
    .min(1, { error: NAME_EXPECTED })
    .max(256, { error: NAME_EXPECTED }),
  uid: uidField.nullish(),
  metadata: metadataField,
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
  const { name, metadata = null } = input;
  return { name, metadata, ratePerSecond: rateIn(input) ?? null };
}

type Created = Readonly<{
  row: Application;
  isNew: boolean;
  /** The request has created it before. */
  isRepeat: boolean;
}>;

/** The application: a new one, that of an earlier request with the same idempotency key, or the one with the `uid`. */
export async function createApplication(c: ApiContext, input: ApplicationInput): Promise<Created | Response> {
  const { db, now } = c.get("services");
  const { uid = null } = input;
  const refusal = refuseBound(c.get("principal"));
  if (refusal) return refusal;
  // A `uid` may come from the path.
  const fault = checked(applicationInput.shape.uid, uid);
  if (!("data" in fault)) return invalid(fault.map((error) => ({ ...error, field: "uid" })));
  const key = idempotencyKeyOf(c);
  const id = key === undefined ? newApplicationId() : await applicationIdFor(key);
  const at = { createdAt: now(), updatedAt: now() };
  const row = await insertApplication(db, { id, uid, ...columnsOf(input), ...at });
  if (row) {
    changed(c, "application.created", { id, tenant: id });
    return { row, isNew: true, isRepeat: false };
  }
  const [byUid, byId] = await Promise.all([
    uid === null ? undefined : findApplication(db, uid),
    findApplication(db, id),
  ]);
  const found = byId ?? byUid;
  if (found === undefined) return problem(409, "The application is being changed by another request");
  return { row: found, isNew: false, isRepeat: byId !== undefined };
}

/** @param columns those that are undefined stay as they are */
async function change(c: ApiContext, before: Application, columns: ApplicationChange): Promise<Response> {
  const { db, now } = c.get("services");
  const row = await changeApplication(db, before.id, columns, now());
  if (row) {
    const view = applicationView(row);
    changed(
      c,
      "application.changed",
      { id: row.id, tenant: row.id },
      changesBetween(applicationView(before), view),
    );
    return c.json(view);
  }
  return (await findApplication(db, before.id))
    ? uidTaken("application", columns.uid)
    : missing("application", before.id);
}

function isApplicationId(name: string): boolean {
  return name.startsWith("app_");
}

function applicationView(row: Application) {
  const { id, uid, name, ratePerSecond, metadata } = row;
  return {
    ...{ id, uid, name },
    ...{ rateLimit: ratePerSecond, throttleRate: ratePerSecond },
    metadata: metadata ?? {},
    createdAt: isoTime(row.createdAt),
    updatedAt: isoTime(row.updatedAt),
  };
}
