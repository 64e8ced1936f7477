/**
 * The target of a destination in the API: which fields go together, by its kind, what they come to as columns, and how
 * a change affects a stored target. Each kind states its own requirements (delivery/kinds); the URL of https is checked
 * in validate.ts, against the host that the request came to.
 */

import { isJsonObject } from "../../core/json-value.ts";
import { errorAt, errorIf, type FieldError } from "../../core/result.ts";
import type { TargetFields } from "../../delivery/kinds/kind.ts";
import {
  deploymentFaults,
  destinationKinds,
  shownTarget,
  targetAmong,
  targetFaults,
  targetFields,
  targetText,
} from "../../delivery/kinds/registry.ts";
import { kindNameOf } from "../../delivery/kinds/sending.ts";
import { sealToken } from "../../delivery/kinds/token.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import type { DestinationInput, NewDestinationInput } from "./schema.ts";

/** The errors of a target's fields together; none where the kind itself is at fault. */
export function targetErrors(given: unknown): FieldError[] {
  if (!isJsonObject(given)) return [];
  const { kind, handshake } = given;
  const name = destinationKinds.find((one) => one === (kind ?? "https"));
  if (name === undefined) return [];
  const fault = `is for the kind https, and this one is ${name}`;
  return [
    ...targetFaults(name, targetAmong(given)),
    ...errorIf(handshake === true && name !== "https", "handshake", fault, "no handshake"),
  ];
}

/** The errors of an input, to which others may be added. */
export type AtFault = Readonly<{ errors: readonly FieldError[] }>;

type TargetColumns = Readonly<{ url?: string; targetToken?: string | null; certification?: null }>;

/** The columns of a new destination's target, which the hook has found to be complete. */
export async function newTarget(
  services: Services,
  input: NewDestinationInput,
  { id, tenant }: Pick<Destination, "id" | "tenant">,
): Promise<Readonly<{ url: string; targetToken: string | null }> | AtFault> {
  const kind = input.kind ?? "https";
  const target = targetAmong(input);
  const errors = deploymentFaults(services, kind, target, tenant);
  if (errors.length > 0) return { errors };
  const targetToken = target.token === undefined ? null : await sealToken(services.vault, id, target.token);
  return { url: targetText(kind, target), targetToken };
}

/** The columns that a change sets of a stored target: what it leaves out stays, null removes, and the kind stays. */
export async function changedTarget(
  services: Services,
  input: DestinationInput,
  stored: Destination,
): Promise<TargetColumns | AtFault> {
  const kind = kindNameOf(stored.url);
  const { kind: wanted = kind } = input;
  if ((wanted ?? "https") !== kind) {
    const expected = `${kind}, as it is: create another destination for another kind`;
    return { errors: errorAt("kind", `is ${wanted ?? "https"}`, expected) };
  }
  if (!changesTarget(input)) return {};
  const given = targetAmong(input);
  const kept = { ...shownTarget(stored.url), ...(stored.targetToken !== null && { token: KEPT }) };
  const target = { ...withoutNulls(kept, input), ...given };
  const errors = targetFaults(kind, target);
  const all = errors.length > 0 ? errors : deploymentFaults(services, kind, target, stored.tenant);
  if (all.length > 0) return { errors: all };
  const url = targetText(kind, target);
  return {
    url,
    ...(await tokenColumn(services, stored.id, target.token)),
    // Another receiver has not been tested.
    ...(url !== stored.url && { certification: null }),
  };
}

/** Represents a stored token that stays: it need not be opened. */
const KEPT = "";

async function tokenColumn({ vault }: Services, id: string, token: string | undefined) {
  if (token === KEPT) return {};
  return { targetToken: token === undefined ? null : await sealToken(vault, id, token) };
}

function withoutNulls(kept: TargetFields, input: object): TargetFields {
  const given = input as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.entries(kept).filter(([field]) => given[field] !== null));
}

/** Whether the input names a field of a target. */
export function changesTarget(input: object): boolean {
  const given = input as Readonly<Record<string, unknown>>;
  return Object.keys(targetFields).some((field) => given[field] !== undefined);
}
