/** Destinations that are bindings of this Worker: queues that it produces for, and other Workers. */
import { BINDING_NAME, mayUse } from "../../core/destination-bindings.ts";
import type { TextShape } from "../../core/shape.ts";
import type { Services } from "../../services.ts";
import type { TargetFault } from "./kind.ts";

/** The field of every kind that is reached through a binding of this Worker. */
export const bindingField = {
  kind: "text",
  pattern: BINDING_NAME,
  expected: "the name of a binding that the operator has listed for the tenant",
  nullable: true,
  optional: true,
  meta: {
    description:
      "A binding of the deployment's Worker that the operator lets the tenant use (`DESTINATION_BINDINGS`): of kind " +
      "`queue` a queue that it produces for, of kind `service` another Worker.",
    example: "ORDERS",
  },
} as const satisfies TextShape;

/** The errors of a binding. One that the tenant may not use is unknown to it, so that names do not leak. */
export function bindingFaults(
  { destinationBindings }: Pick<Services, "destinationBindings">,
  kind: "queue" | "service",
  name: string | undefined,
  tenant: string,
): TargetFault[] {
  if (name === undefined) return [];
  const binding = destinationBindings?.get(name);
  if (!binding || !mayUse(binding, tenant)) {
    const expected = `a binding that the operator lets the tenant ${tenant} use`;
    return [{ field: "binding", fault: `is ${JSON.stringify(name)}, which is not known`, expected }];
  }
  if (binding.kind === kind) return [];
  const fault = `is ${JSON.stringify(name)}, the binding of a ${binding.kind}`;
  return [{ field: "binding", fault, expected: `the binding of a ${kind}` }];
}

/** The binding of that name, while it is bound and the tenant may use it. */
export function bindingOf<K extends "queue" | "service">(
  { destinationBindings }: Pick<Services, "destinationBindings">,
  kind: K,
  name: string,
  tenant: string,
) {
  const binding = destinationBindings?.get(name);
  if (binding?.kind !== kind || !mayUse(binding, tenant)) return undefined;
  return binding as Extract<typeof binding, { kind: K }>;
}
