/**
 * Applications of the Svix API: each is the tenant that is named by its id. They belong to the operator: their names lead to
 * their messages, and their rates limit their tenants.
 */
import { changesBetween } from "../../core/audit.ts";
import type { Principal } from "../../core/principal.ts";
import { conflict, invalidFields, missing, ok, type Refused } from "../../core/result.ts";
import { checked } from "../../http/problems.ts";
import { applicationIdFor, newApplicationId } from "../../ids.ts";
import { endDeleted } from "../../jobs/deleted-destinations.ts";
import { isoTime } from "../../time.ts";
import { uidField } from "../destinations/fields.ts";
import { service } from "../service.ts";
import {
  type Application,
  type ApplicationChange,
  changeApplication,
  deleteApplication,
  findApplication,
  type IdPage,
  insertApplication,
  listApplications,
} from "./sql.ts";

const permission = { scope: "admin" } as const;

/** Refused before anything is looked up, so that no answer says which names are taken. */
export function refuseApplications({ tenant }: Principal): Refused<"forbidden"> | undefined {
  if (tenant === undefined) return undefined;
  const detail = "The key is bound to a tenant: it creates, changes and deletes no applications";
  return { kind: "forbidden", detail };
}

/** A page of applications by id; for a principal that is bound to a tenant, that tenant's alone. */
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
  async ({ services, principal, changed }, { idempotencyKey, ...fields }: NewApplication) => {
    const refusal = refuseApplications(principal);
    if (refusal) return refusal;
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
    if (found === undefined) return conflict("The application is being changed by another request");
    return ok({ row: found, isNew: false, isRepeat: byId !== undefined });
  },
);

/** Changes what is not undefined. A conflict when another application has the `uid`. */
export const updateApplication = service(
  permission,
  async (
    { services, principal, changed },
    { before, change }: Readonly<{ before: Application; change: ApplicationChange }>,
  ) => {
    const refusal = refuseApplications(principal);
    if (refusal) return refusal;
    const { db, now } = services;
    const { id } = before;
    const row = await changeApplication(db, id, change, now());
    if (row) {
      const changes = changesBetween(applicationView(before), applicationView(row));
      changed("application.changed", { id, tenant: id }, changes);
      return ok(row);
    }
    const isThere = (await findApplication(db, id)) !== undefined;
    return isThere ? conflict(`Another application has the uid ${change.uid}`) : missing("application", id);
  },
);

/** Deleted endpoints whose deliveries are cancelled at once; the sweep cancels those of the others. */
const ENDED_AT_ONCE = 10;

/** Deletes the application and its endpoints. */
export const removeApplication = service(permission, async ({ services, principal, changed }, id: string) => {
  const refusal = refuseApplications(principal);
  if (refusal) return refusal;
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
