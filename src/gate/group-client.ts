/** Calls to a group's object (see group-object.ts), by RPC from any Worker. One that cannot be reached is a value. */
import type { BlockAnswer, BlockRequest } from "../core/group/deal.ts";
import type { GroupSettings, GroupStanding, GroupView } from "../core/group/group-state.ts";
import type { GroupReport } from "../core/group/report.ts";
import type { Services } from "../services.ts";
import { callObject } from "./client.ts";
import type { ReceiverGroup } from "./group-object.ts";

type GroupServices = Pick<Services, "groups" | "gateLocation" | "log" | "sleep" | "now" | "random">;

/** A lease is settled after it is reported: no longer than its margin leaves for that. */
const TIMEOUT_MS = 2_000;

/** A block, or why there is none. Undefined when the group cannot be reached. One whose answer is lost expires. */
export function blockAtGroup(
  services: GroupServices,
  group: string,
  request: BlockRequest,
  settings: GroupSettings,
): Promise<BlockAnswer | undefined> {
  return call(services, group, async (object) => object.deal(request, settings));
}

/** Whether the failures reported are the group's; undefined when it cannot be reached. */
export function reportToGroup(
  services: GroupServices,
  group: string,
  report: GroupReport,
  settings: GroupSettings,
): Promise<boolean | undefined> {
  return call(services, group, (object) => object.report(report, settings));
}

export function standingAtGroup(services: GroupServices, group: string): Promise<GroupStanding | undefined> {
  return call(services, group, async (object) => object.standing());
}

/** The group's current state; undefined when it cannot be reached. */
export function viewGroup(
  services: GroupServices,
  group: string,
  settings: GroupSettings,
): Promise<GroupView | undefined> {
  return call(services, group, async (object) => object.view(settings));
}

/** An operator wants the receiver tried again. False when the group cannot be reached. */
export async function resetGroup(
  services: GroupServices,
  group: string,
  settings: GroupSettings,
): Promise<boolean> {
  return (await call(services, group, (object) => object.reset(settings).then(() => true))) ?? false;
}

/** A report would count twice, and a second block would be lost: nothing is repeated. */
function call<T>(
  services: GroupServices,
  group: string,
  method: (object: DurableObjectStub<ReceiverGroup>) => Promise<T>,
): Promise<T | undefined> {
  const called = { objects: services.groups, name: group, failed: { what: "group_unreachable", group } };
  return callObject(services, called, method, { times: "once", timeoutMs: TIMEOUT_MS });
}
