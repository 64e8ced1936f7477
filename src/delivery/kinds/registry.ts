/** The kinds of destinations with their fields: the one list that API, OpenAPI and pages share. */
import type { Services } from "../../services.ts";
import { bindingFaults } from "./binding.ts";
import { https } from "./https.ts";
import type { Kind, TargetFault, TargetFields } from "./kind.ts";
import { poll } from "./poll.ts";
import { queue } from "./queue.ts";
import { type DestinationKind, kindNameOf } from "./sending.ts";
import { serviceBinding } from "./service-binding.ts";

const kinds = { https, queue, service: serviceBinding, poll } as const satisfies Readonly<
  Record<DestinationKind, Kind>
>;

export const destinationKinds = Object.keys(kinds) as [DestinationKind, ...DestinationKind[]];

/** The fields of the API that name a target, of all kinds. */
export const targetFields = { ...https.fields, ...queue.fields, ...serviceBinding.fields } as const;

export function targetFieldNames(kind: DestinationKind): readonly string[] {
  return Object.keys(kinds[kind].fields);
}

/** The fields of a stored target, as the API shows them; none if it was edited into something unreadable. */
export function shownTarget(target: string): TargetFields {
  return kinds[kindNameOf(target)].fieldsOf(target) ?? {};
}

export function targetText(kind: DestinationKind, fields: TargetFields): string {
  return kinds[kind].textOf(fields);
}

/** Faults of the fields as a target of this kind, in any deployment. */
export function targetFaults(kind: DestinationKind, fields: TargetFields): TargetFault[] {
  const { fields: own, faults }: Kind = kinds[kind];
  const foreign = Object.keys(fields).filter((field) => fields[field] !== undefined && !(field in own));
  const names = Object.keys(own).join(", ");
  const expected = names === "" ? "no field of a target" : `only ${names}`;
  return [
    ...foreign.map((field) => ({ field, fault: `is not a field of the kind ${kind}`, expected })),
    ...faults(fields),
  ];
}

/** Faults of the fields in this deployment, for this tenant. */
export function deploymentFaults(
  services: Pick<Services, "destinationBindings">,
  kind: DestinationKind,
  { binding }: TargetFields,
  tenant: string,
): TargetFault[] {
  const { binds }: Kind = kinds[kind];
  return binds === undefined ? [] : bindingFaults(services, binds, binding, tenant);
}

/** The fields of a body that name a target; one that is not text counts as given, and its validation reports it. */
export function targetAmong(given: object): TargetFields {
  const body = given as Readonly<Record<string, unknown>>;
  const named = Object.keys(targetFields).flatMap((field) => {
    const value = body[field];
    if (value === undefined || value === null) return [];
    return [[field, typeof value === "string" ? value : ""] as const];
  });
  return Object.fromEntries(named);
}
