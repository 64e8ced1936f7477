/**
 * Applications of the Svix API: each is the tenant that is named by its id. They belong to the operator: their names lead to
 * their messages, and their rates limit their tenants.
 */
import { changesBetween } from "../../core/audit.ts";
import { checked } from "../../core/field-errors.ts";
import type { Principal } from "../../core/principal.ts";
import { conflict, conflictAt, invalidFields, missing, ok, type Refused } from "../../core/result.ts";
import { applicationIdFor, newApplicationId } from "../../ids.ts";
import { endDeleted } from "../../jobs/deleted-destinations.ts";
import type { Services } from "../../services.ts";
import { isoTime } from "../../time.ts";
import { uidField } from "../destinations/fields.ts";
import { service } from "../service.ts";
import {
  type Application,
  type ApplicationChange,
  applicationByUid,
  changeApplication,
  deleteApplication,
  findApplication,
  type IdPage,
  insertApplication,
  listApplications,
} from "./sql.ts";

/** Checked before anything is looked up, so that no answer says which names are taken. */
const permission = { scope: "admin", operators: "applications belong to the operator" } as const;

/** A page of applications by id; for a principal that is bound to a tenant, only that tenant's. */
export const getApplications = service({ scope: "read" }, async ({ services, principal }, page: IdPage) => {
  const { tenant } = principal;
  if (tenant === undefined) return ok(await listApplications(services.db, page));
  const own = page.after === undefined ? await findApplication(services.db, tenant) : undefined;
  return ok(own?.id === tenant ? [own] : []);
});

type NewApplication = Pick<Application, "uid" | "name" | "metadata" | "ratePerSecond"> &
  Readonly<{ idempotencyKey: string | undefined }>;

/** A new application, that of an earlier request with the same idempotency key, or the one that has the `uid`. */
export const createApplication = service(
  permission,
  async ({ services, changed }, { idempotencyKey, ...fields }: NewApplication) => {
    const { db, now } = services;
    const { uid } = fields;
    // A `uid` may come from a path.
    const read = checked(uidField.nullable(), uid);
    if (!("data" in read)) return invalidFields(read.map((error) => ({ ...error, field: "uid" })));
    const id = idempotencyKey === undefined ? newApplicationId() : await applicationIdFor(idempotencyKey);
    const row = await insertApplication(db, { id, ...fields, createdAt: now(), updatedAt: now() });
    if (row) {
      changed("application.created", { id, tenant: id });
      return ok({ row, isNew: true, isRepeat: false });
    }
    const [byUid, byId] = await Promise.all([
      uid === null ? undefined : findApplication(db, uid),
      findApplication(db, id),
    ]);
    const found = byId ?? byUid;
    if (found === undefined) return uid === null ? conflict(BEING_CHANGED) : namedLikeTenant(uid);
    return ok({ row: found, isNew: false, isRepeat: byId !== undefined });
  },
);

const BEING_CHANGED = "The application is being changed by another request";

/** Two names for one customer would be two tenants, each without the other's endpoints. */
function namedLikeTenant(uid: string): Refused<"conflict"> {
  const fault = `is "${uid}", the name of a tenant that is not an application`;
  const expected = "another uid; the native API reaches that tenant by its name";
  return conflictAt("uid", { field: "uid", fault, expected });
}

/**
 * The refusal of a tenant's name that is the `uid` of an application; undefined if it is not one, or no name was given.
 * Principals that are bound to a tenant do not learn which application that is.
 */
export async function refuseApplicationsName(
  { db }: Services,
  principal: Principal,
  tenant: string | undefined,
): Promise<Refused<"conflict"> | undefined> {
  if (tenant === undefined) return undefined;
  const application = await applicationByUid(db, tenant);
  if (application === undefined) return undefined;
  if (principal.tenant !== undefined)
    return conflict("The tenant can have no destinations: ask the operator");
  const fault = `is "${tenant}", the uid of the application ${application.id}`;
  const expected = `${application.id}, which is the application's tenant`;
  return conflictAt("tenant", { field: "tenant", fault, expected });
}

/** Changes the fields that are not undefined. A conflict when another application has the `uid`. */
export const updateApplication = service(
  permission,
  async (
    { services, changed },
    { before, change }: Readonly<{ before: Application; change: ApplicationChange }>,
  ) => {
    const { db, now } = services;
    const { id } = before;
    const row = await changeApplication(db, id, change, now());
    if (row) {
      const changes = changesBetween(applicationView(before), applicationView(row));
      changed("application.changed", { id, tenant: id }, changes);
      return ok(row);
    }
    const { uid } = change;
    const [own, other] = await Promise.all([
      findApplication(db, id),
      uid ? applicationByUid(db, uid) : undefined,
    ]);
    if (own === undefined) return missing("application", id);
    if (!uid) return conflict(BEING_CHANGED);
    return other && other.id !== id
      ? conflict(`Another application has the uid ${uid}`)
      : namedLikeTenant(uid);
  },
);

/** Deleted endpoints whose deliveries are cancelled at once; the sweep cancels those of the others. */
const ENDED_AT_ONCE = 10;

/** Deletes the application and its endpoints. */
export const removeApplication = service(permission, async ({ services, changed }, id: string) => {
  const deleted = await deleteApplication(services.db, id, services.now());
  for (const one of deleted.slice(0, ENDED_AT_ONCE)) services.background(endDeleted(services, one));
  changed("application.deleted", { id, tenant: id });
  return ok(undefined);
});

/** An application as the Svix API shows it. */
export function applicationView(row: Application) {
  const { id, uid, name, ratePerSecond, metadata } = row;
  return {
    ...{ id, uid, name },
    ...{ rateLimit: ratePerSecond, throttleRate: ratePerSecond },
    metadata: metadata ?? {},
    createdAt: isoTime(row.createdAt),
    updatedAt: isoTime(row.updatedAt),
  };
}
