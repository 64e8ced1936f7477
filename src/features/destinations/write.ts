/**
 * Destinations written: created and changed, after everything has been checked that depends on the deployment and on what
 * is stored.
 */

import type { z } from "@hono/zod-openapi";
import { capsOf } from "../../config.ts";
import { defaultLimits } from "../../core/limits.ts";
import { type LimitedField, limitedFields } from "../../core/portal-access.ts";
import { notYourTenant, type Principal, tenantFor } from "../../core/principal.ts";
import type { FieldError } from "../../core/result.ts";
import { formsOf } from "../../core/signature-forms.ts";
import { resumeAtGate } from "../../gate/client.ts";

import { answerOf, checked, invalid, notFound, type ProblemResponse, problem } from "../../http/problems.ts";
import { destinationIdFor, newDestinationId } from "../../ids.ts";
import { sealedScheme } from "../../secrets/vault.ts";
import type { Services } from "../../services.ts";
import {
  breakerOf,
  changeDestination,
  type Destination,
  type DestinationChange,
  destinationByUid,
  findDestination,
  insertDestination,
  isTaken,
  type NewDestination,
} from "../../store/destinations.ts";
import { conflictErrors } from "./auth.ts";
import { headersSchema } from "./headers.ts";
import { columnsOf, type DestinationInput, type newDestination } from "./schema.ts";
import { changedTarget, newTarget } from "./target.ts";
import {
  addressErrors,
  breakerErrors,
  chosenSecret,
  dependsOn,
  formErrors,
  handshakeFor,
  templateErrors,
} from "./validate.ts";

export const PAUSED = { status: "paused", statusReason: "manual" } as const;

/** Creates the destination, at most once with a key. `origin` is the host that a handshake names. */
export async function addDestination(
  services: Services,
  principal: Principal,
  input: z.infer<typeof newDestination>,
  key: string | undefined,
  origin: string,
): Promise<Readonly<{ row: Destination; secret: string }> | ProblemResponse<403 | 409 | 422>> {
  const { db, config } = services;
  const tenant = tenantFor(principal, input.tenant);
  if (tenant === undefined) return answerOf(notYourTenant(principal));
  const id = key === undefined ? newDestinationId() : await destinationIdFor(tenant, key);
  // Before the receiver is called; the insert checks again.
  if (key !== undefined && (await findDestination(db, id, tenant))) return alreadyCreated(id);
  const above = limitErrors(principal, { ...defaultLimits, ...input });
  if (above.length > 0) return invalid(above);
  const prepared = await preparedRow(services, input, { id, tenant }, origin);
  if ("errors" in prepared) return invalid(prepared.errors);
  const most = principal.visit?.max_endpoints ?? Number.POSITIVE_INFINITY;
  const max = Math.min(capsOf(config).destinations, most);
  const row = await insertDestination(db, prepared.row, max);
  if (row !== undefined) return { row, secret: prepared.secret };
  // A random id cannot be taken.
  if (key !== undefined && (await isTaken(db, id))) return alreadyCreated(id);
  return (await uidConflict(db, { id, tenant }, input)) ?? invalid([tooManyDestinations(tenant, max)]);
}

/** The errors of limits that are above those of a visitor of the portal; null stands for a limit's default. */
export function limitErrors(
  { visit }: Principal,
  input: Readonly<{ [K in LimitedField]?: number | null | undefined }>,
): FieldError[] {
  return limitedFields.flatMap((field) => {
    const [most, given] = [visit?.[field] ?? null, input[field]];
    const value = given === null ? defaultLimits[field] : given;
    if (most === null || value === undefined || value <= most) return [];
    return [{ field, fault: `is ${value}`, expected: `at most ${most}: the visitor may set no more` }];
  });
}

/** The row of a destination to be, and its secret; or the errors of the input, whatever of it is at fault first. */
export async function preparedRow(
  services: Services,
  input: z.infer<typeof newDestination>,
  { id, tenant }: Pick<Destination, "id" | "tenant">,
  origin: string,
): Promise<Readonly<{ row: NewDestination; secret: string }> | Readonly<{ errors: readonly FieldError[] }>> {
  const { vault, now } = services;
  const chosen = await chosenSecret(input, "hmac-sha256", formsOf(input.signature_forms));
  const errors = [
    ...breakerErrors(input.breaker),
    ...formErrors(input),
    ...conflictErrors(input),
    ...templateErrors(input, tenant),
    ...("errors" in chosen ? chosen.errors : []),
  ];
  if ("errors" in chosen || errors.length > 0) return { errors };
  const target = await newTarget(services, input, { id, tenant });
  if ("errors" in target) return target;
  const privateAddress = await addressErrors(services, input);
  if (privateAddress.length > 0) return { errors: privateAddress };
  const agreed = await handshakeFor(services, input, origin);
  if ("errors" in agreed) return agreed;
  const secret = await vault.seal(id, chosen.secret);
  const at = { createdAt: now(), updatedAt: now() };
  const turned = input.status === "paused" && { ...PAUSED, statusChangedAt: at.createdAt };
  const columns = { ...(await columnsOf(vault, id, input)), ...agreed, ...target, ...turned };
  return { row: { ...columns, id, tenant, secret, ...at }, secret: chosen.secret };
}

function alreadyCreated(id: string) {
  const fault = `was used before: it created ${id}`;
  const expected = "a new key for another destination";
  const detail = `The Idempotency-Key ${fault}; expected ${expected}`;
  const location = `/v1/destinations/${id}`;
  return problem(409, detail, [{ field: "idempotency-key", fault, expected }], { location });
}

/** 409 when another destination of the tenant has the `uid` of the input. */
async function uidConflict(
  db: D1Database,
  { id, tenant }: Pick<Destination, "id" | "tenant">,
  { uid }: DestinationInput,
): Promise<ProblemResponse<409> | undefined> {
  const holder = uid ? await destinationByUid(db, tenant, uid) : undefined;
  if (holder === undefined || holder.id === id) return undefined;
  const fault = `is that of ${holder.id}`;
  const expected = "one that no other destination of the tenant has";
  return problem(409, `The uid ${uid} ${fault}; expected ${expected}`, [{ field: "uid", fault, expected }]);
}

/** The error names the tenant even where the body does not: it is whose destination it would have been. */
function tooManyDestinations(tenant: string, max: number): FieldError {
  const expected = `at most ${max} in a tenant: delete one that is no longer needed`;
  return { field: "tenant", fault: `is ${tenant}, which has ${max} destinations or more`, expected };
}

/** A change is validated again, so many times in all, when another changes what it depends on. */
const CHANGE_TRIES = 3;

type Edited = Readonly<{ stored: Destination; row: Destination }> | ProblemResponse<404 | 409 | 422>;

/** Changes the destination. What the input leaves out is not written, and stays. */
export async function editDestination(
  services: Services,
  id: string,
  tenant: string | undefined,
  input: DestinationInput,
): Promise<Edited> {
  const privateAddress = await addressErrors(services, input);
  if (privateAddress.length > 0) return invalid(privateAddress);
  const columns = await columnsOf(services.vault, id, input);
  return editStored(services, id, tenant, async () => ({ input, columns }));
}

/** Changes the headers of the destination to what `change` makes of those that it has. */
export async function editHeaders(
  services: Services,
  id: string,
  tenant: string | undefined,
  change: (stored: Destination) => Promise<NonNullable<DestinationInput["headers"]> | ProblemResponse<503>>,
): Promise<Edited | ProblemResponse<503>> {
  return editStored<ProblemResponse<422 | 503>>(services, id, tenant, async (stored) => {
    const changed = await change(stored);
    if (changed instanceof Response) return { refused: changed };
    const read = checked(headersSchema, changed);
    if (!("data" in read))
      return { refused: invalid(read.map((one) => ({ ...one, field: `headers.${one.field}` }))) };
    const input = { headers: read.data };
    return { input, columns: await columnsOf(services.vault, id, input) };
  });
}

type Change = Readonly<{ input: DestinationInput; columns: DestinationChange }>;

/** @param changeFor asked anew when another changes meanwhile what the change depends on */
async function editStored<R = never>(
  services: Services,
  id: string,
  tenant: string | undefined,
  changeFor: (stored: Destination) => Promise<Change | Readonly<{ refused: R }>>,
): Promise<Edited | R> {
  const { db, now } = services;
  for (let attempt = 1; attempt <= CHANGE_TRIES; attempt++) {
    const stored = await findDestination(db, id, tenant);
    if (stored === undefined) return notFound("destination", id);
    const made = await changeFor(stored);
    if ("refused" in made) return made.refused;
    const { input, columns } = made;
    const target = await changedTarget(services, input, stored);
    const errors = [...changeErrors(input, stored), ...("errors" in target ? target.errors : [])];
    if ("errors" in target || errors.length > 0) return invalid(errors);
    // It never stays: changes that depend on each other know by it that there was another.
    const updatedAt = Math.max(now(), stored.updatedAt + 1);
    const change = { ...columns, ...target, updatedAt };
    const row = await changeDestination(db, id, change, tenant, dependsOn(input, stored));
    if (!row) {
      const conflict = await uidConflict(db, stored, input);
      if (conflict) return conflict;
      continue;
    }
    // A hold, an open circuit and a narrow window are about the old target's receiver.
    if (row.url !== stored.url) services.background(resumeAtGate(services, id));
    return { stored, row };
  }
  return problem(409, "The destination is being changed by other requests at the same time");
}

/** The errors of a change that depend on what is stored, but for its target. */
export function changeErrors(input: DestinationInput, stored: Destination): FieldError[] {
  const scheme = sealedScheme(stored.secret) ?? "hmac-sha256";
  return [
    ...breakerErrors(input.breaker, breakerOf(stored)),
    ...formErrors(input, { ...stored, scheme }),
    ...conflictErrors(input, stored),
    ...templateErrors(input, stored.tenant, stored),
  ];
}
