/**
 * Whether a destination is in a group, and what that means for its leases. A destination without a group costs no call
 * except its gate's, and the code of groups (group-member.ts) is loaded with the first member.
 */
import type { AdmitRequest, AdmitResult } from "../core/admit.ts";
import type { DestinationState } from "../core/destination-state.ts";
import { BY_HOST, GROUP_NAME, groupOfHost } from "../core/group/name.ts";
import { healthOfExchange } from "../core/retry/classify.ts";
import type { SettleRequest, SettleResult } from "../core/settle.ts";
import { admitAtGate, settleAtGate, stateAtGate } from "../gate/client.ts";
import type { Services } from "../services.ts";
import { type Destination, gateSettingsOf } from "../store/destination.ts";
import type { Ended, LeaseAttempts, Member } from "./group-member.ts";

/** How long an isolate remembers the hosts that were counted. */
const HOSTS_REMEMBERED_MS = 60_000;

const loadMember = () => import("./group-member.ts");

/**
 * The group that the destination is in; undefined when it is in none. `group: "host"` and shared hosts are for URLs only; a
 * name is for any kind of destination.
 */
export function groupOf(
  { group, url }: Pick<Destination, "group" | "url">,
  shared: readonly string[],
): string | undefined {
  if (group !== null && group !== BY_HOST && GROUP_NAME.test(group)) return group;
  if (group !== BY_HOST && shared.length === 0) return undefined;
  const host = /^https?:/i.test(url) ? URL.parse(url)?.host : undefined;
  if (!host) return undefined;
  const isListed = (listed: string) =>
    listed.startsWith("*") ? host.endsWith(listed.slice(1)) : host === listed;
  return group === BY_HOST || shared.some(isListed) ? groupOfHost(host) : undefined;
}

/**
 * The hosts whose destinations are in a group by default: the operator's list, or the counted ones, at most a minute
 * old. If these cannot be read, older ones are used; without any it rejects.
 */
export async function sharedHostsOf({ config, db, memory, now }: Services): Promise<readonly string[]> {
  const { sharedHosts: shared = [] } = config;
  if (typeof shared !== "number") return shared;
  const name = String(shared);
  const known = memory.sharedHosts.get(name);
  if (known && known.until > now()) return known.hosts;
  try {
    const { findSharedHosts } = await import("../store/group.ts");
    const { hosts = [] } = (await findSharedHosts(db, shared)) ?? {};
    memory.sharedHosts.set(name, { hosts, until: now() + HOSTS_REMEMBERED_MS });
    return hosts;
  } catch (error) {
    if (known) return known.hosts;
    throw error;
  }
}

/** The destination as a member of its group; undefined when it is in none. */
export async function memberOf(services: Services, destination: Destination): Promise<Member | undefined> {
  const group = groupOf(destination, await sharedHostsOf(services));
  return group === undefined ? undefined : { destination, group };
}

/** The same, or undefined where it cannot be known: leases are settled nevertheless. */
function knownMemberOf(services: Services, destination: Destination): Promise<Member | undefined> {
  return memberOf(services, destination).catch(() => undefined);
}

/**
 * Requests a lease. Undefined when the gate, or the group of a member, cannot be reached.
 * @param lookedUpAt when the deliveries were read from D1, by this worker's clock
 */
export async function admitDestination(
  services: Services,
  destination: Destination,
  request: AdmitRequest,
  lookedUpAt: number,
): Promise<AdmitResult | undefined> {
  const member = await memberOf(services, destination);
  if (member) return (await loadMember()).admitMember(services, member, request, lookedUpAt);
  return admitAtGate(services, destination.id, request, gateSettingsOf(destination));
}

/** Settles a lease. Outcomes that may concern the whole receiver of a member are reported to its group before. */
export async function settleDestination(
  services: Services,
  destination: Destination,
  settlement: SettleRequest,
  part: LeaseAttempts,
): Promise<SettleResult | undefined> {
  const member = await knownMemberOf(services, destination);
  if (member) return (await loadMember()).settleMember(services, member, settlement, part);
  return settleAtGate(services, destination.id, settlement, gateSettingsOf(destination));
}

/** A member's 429 is reported at once, because other members must stop too. */
export function reportThrottled(services: Services, destination: Destination, attempt: Ended): void {
  if (healthOfExchange(attempt.exchange) !== "throttled") return;
  const reported = knownMemberOf(services, destination).then(
    async (member) => member && (await loadMember()).reportLimited(services, member, attempt),
  );
  services.background(reported);
}

/** The knowledge of other leases about the destination, and that of other members of its group. */
export async function learnedState(
  services: Services,
  destination: Destination,
): Promise<DestinationState | undefined> {
  const member = await knownMemberOf(services, destination);
  if (member) return (await loadMember()).learnedMemberState(services, member);
  return stateAtGate(services, destination.id);
}
