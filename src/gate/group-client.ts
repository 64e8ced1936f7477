/** Calls to a group's object (see group-object.ts), by RPC from any Worker. One that cannot be reached is a value. */
import type { Services } from "../services.ts";
import { type AnswerOf, type ArgsOf, type CallServices, callObject, type MethodOf } from "./client.ts";
import type { ReceiverGroup } from "./group-object.ts";

/** A lease is settled after its report, so a report may take no longer than the lease's margin allows. */
const TIMEOUT_MS = 2_000;

/**
 * Calls a method of the group; undefined when it cannot be reached. A report would count twice, and a second block would be
 * lost: nothing is repeated, and a block whose answer is lost expires.
 */
export function atGroup<M extends MethodOf<ReceiverGroup>>(
  services: CallServices & Pick<Services, "groups">,
  group: string,
  method: M,
  ...args: ArgsOf<ReceiverGroup, M>
): Promise<AnswerOf<ReceiverGroup, M> | undefined> {
  const called = { objects: services.groups, name: group, failed: { what: "group_unreachable", group } };
  return callObject(services, called, method, () => args, { once: true, timeoutMs: TIMEOUT_MS });
}
