/** Applications: each is the tenant that is named by its id. */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { limitShape } from "../../core/limits.ts";
import {
  applicationView,
  createApplication,
  getApplications,
  removeApplication,
  updateApplication,
} from "../../features/applications/service.ts";
import {
  type Application,
  type ApplicationChange,
  findApplication,
} from "../../features/applications/sql.ts";
import { uidField } from "../../features/destinations/fields.ts";
import { destinationChange } from "../../features/destinations/schema.ts";
import { textField, wholeNumberFrom } from "../../features/parameters.ts";
import { permitting, requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import {
  applicationOf,
  bodyOf,
  flag,
  granted,
  idempotencyKeyOf,
  listOf,
  noContent,
  orderedQuery,
  queryOf,
  refuseFields,
  refuseUnknown,
  seenApplication,
  uidTaken,
} from "./shapes.ts";

export function registerApplications(app: Hono<ApiEnv>): void {
  app.post("/api/v1/app", permitting(createApplication.permission), jsonBody(), async (c) => {
    const query = queryOf(c, z.object({ get_if_exists: flag }));
    const input = await bodyOf(c, applicationInput);
    const { row, isNew, isRepeat } = await createFrom(c, input);
    if (isNew || isRepeat || query.get_if_exists === true)
      return c.json(applicationView(row), isNew || isRepeat ? 201 : 200);
    return uidTaken("application", input.uid);
  });

  app.get("/api/v1/app", requires("read"), async (c) => {
    const { limit, iterator: after, order } = queryOf(c, listQuery);
    const page = { after, limit: limit + 1, descending: order === "descending" };
    const listed = granted(await getApplications(callerIn(c), page));
    return c.json(listOf(listed.map(applicationView), limit, ({ id }) => id));
  });

  app.get("/api/v1/app/:app", requires("read"), async (c) => c.json(applicationView(await applicationOf(c))));

  app.put("/api/v1/app/:app", permitting(createApplication.permission), jsonBody(), async (c) => {
    const input = await bodyOf(c, applicationInput);
    const before = await seenApplication(c);
    if (before) return changeAs(c, before, columnsOf(input));
    // As in the Svix API, an unused `uid` is created.
    const name = c.req.param("app");
    if (name.startsWith("app_") || (input.uid ?? name) !== name) refuseUnknown("application", name);
    const { row, isNew } = await createFrom(c, { ...input, uid: name });
    return isNew ? c.json(applicationView(row), 201) : uidTaken("application", name);
  });

  app.patch("/api/v1/app/:app", permitting(updateApplication.permission), jsonBody(), async (c) => {
    const input = await bodyOf(c, applicationInput.partial());
    const { uid, name, metadata } = input;
    return changeAs(c, await applicationOf(c), { uid, name, metadata, ratePerSecond: rateIn(input) });
  });

  app.delete("/api/v1/app/:app", permitting(removeApplication.permission), async (c) => {
    const { id } = await applicationOf(c);
    return noContent(c, await removeApplication(callerIn(c), id));
  });
}

const noExclusion = z.literal("false", "expected false: the list has all applications").optional();

const listQuery = z.object({
  ...orderedQuery,
  exclude_apps_with_no_endpoints: noExclusion,
  exclude_apps_with_disabled_endpoints: noExclusion,
  exclude_apps_with_svix_play_endpoints: noExclusion,
});

/** Attempts per second. */
export const rateField = wholeNumberFrom(1, limitShape.fields.rate_per_second.max).nullish();

export const applicationInput = z.object({
  name: textField("a string of 1 to 256 characters", { min: 1, max: 256 }),
  uid: uidField.nullish(),
  metadata: destinationChange.shape.metadata,
  throttleRate: rateField,
  rateLimit: rateField,
});

type ApplicationInput = z.infer<typeof applicationInput>;

/** The rate by its name of today or by the former one; undefined if neither is given. */
export function rateIn(input: Partial<Pick<ApplicationInput, "throttleRate" | "rateLimit">>) {
  return input.throttleRate === undefined ? input.rateLimit : input.throttleRate;
}

function columnsOf(input: ApplicationInput) {
  const { name, uid = null, metadata = null } = input;
  return { name, uid, metadata, ratePerSecond: rateIn(input) ?? null };
}

/** The application that the input describes: a new one, or the existing one. */
async function createFrom(c: ApiContext, input: ApplicationInput) {
  const draft = { ...columnsOf(input), idempotencyKey: idempotencyKeyOf(c) };
  return granted(await createApplication(callerIn(c), draft));
}

async function changeAs(c: ApiContext, before: Application, change: ApplicationChange): Promise<Response> {
  return c.json(applicationView(granted(await updateApplication(callerIn(c), { before, change }))));
}

/**
 * The application of the path; as in the Svix API, a body may contain an application that does not exist yet.
 * @param check refuses the rest of the request before an application is created: what is refused creates nothing
 */
export async function applicationFor(
  c: ApiContext,
  { application }: Readonly<{ application?: ApplicationInput | null | undefined }>,
  check?: () => Promise<void>,
): Promise<Application> {
  const found = await seenApplication(c);
  const name = c.req.param("app") ?? "";
  if (found) return found;
  if (!application) return refuseUnknown("application", name);
  if ((application.uid ?? name) !== name)
    refuseFields([{ field: "application.uid", fault: "is not that of the path", expected: name }]);
  await check?.();
  const { row } = await createFrom(c, { ...application, uid: name });
  if (row.uid === name) return row;
  return (await findApplication(c.get("services").db, name)) ?? refuseUnknown("application", name);
}
