/**
 * Destinations in a group: objects never call each other, so a Worker carries what a gate needs to the group, the
 * group's block to the gate, and outcomes and ends of blocks back. A destination in no group costs no call of this.
 */
import type { AdmitRequest, AdmitResult } from "../core/admit.ts";
import type { DestinationState } from "../core/destination-state.ts";
import type { GroupSettings } from "../core/group/group-state.ts";
import type { BlockNeeds } from "../core/group/member.ts";
import { BY_HOST, GROUP_NAME, groupOfHost, isGroupOfHost } from "../core/group/name.ts";
import type { GroupReport } from "../core/group/report.ts";
import { type Exchange, healthOfExchange } from "../core/retry/classify.ts";
import { holdUntil } from "../core/retry/transition.ts";
import type { SettleRequest, SettleResult } from "../core/settle.ts";
import { admitAtGate, destinationStateAtGate, settleAtGate } from "../gate/client.ts";
import { blockAtGroup, reportToGroup, standingAtGroup } from "../gate/group-client.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { type Destination, gateSettingsOf } from "../store/destination.ts";
import { findGroup, findSharedHosts, groupSettingsOf } from "../store/group.ts";

/** How long an isolate remembers a group's limits. */
const REMEMBERED_MS = 10_000;
/** And the hosts that were counted. */
const HOSTS_REMEMBERED_MS = 60_000;

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
 * The hosts whose destinations are in a group without saying so: the operator's list, or those that were counted, a minute
 * old at most. Where these cannot be read, older ones are used; without any it rejects.
 */
export async function sharedHostsOf({ config, db, memory, now }: Services): Promise<readonly string[]> {
  const { sharedHosts: shared = [] } = config;
  if (typeof shared !== "number") return shared;
  const name = String(shared);
  const known = memory.sharedHosts.get(name);
  if (known && known.until > now()) return known.hosts;
  try {
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

/** The same, and undefined where it cannot be known: leases are settled all the same. */
function knownMemberOf(services: Services, destination: Destination): Promise<Member | undefined> {
  return memberOf(services, destination).catch(() => undefined);
}

/** The group's limits, at most ten seconds old. Rejects while they cannot be read: nothing is sent without them. */
async function settingsOf({ db, memory, now }: Services, group: string): Promise<GroupSettings> {
  const known = memory.groupSettings.get(group);
  if (known && known.until > now()) return known.settings;
  const settings = groupSettingsOf(await findGroup(db, group));
  memory.groupSettings.set(group, { settings, until: now() + REMEMBERED_MS });
  return settings;
}

type Member = Readonly<{ destination: Destination; group: string }>;

/**
 * Asks the gate, and where it needs a block, the group and then the gate again. Undefined when one of them cannot be
 * reached. `lookedUpAt` is when the deliveries were read from D1, by this worker's clock.
 */
export async function admitMember(
  services: Services,
  { destination, group }: Member,
  request: AdmitRequest,
  lookedUpAt: number,
): Promise<AdmitResult | undefined> {
  const settings = gateSettingsOf(destination);
  const admitWith = (part: NonNullable<AdmitRequest["group"]>) =>
    admitAtGate(
      services,
      destination.id,
      { ...request, lookedUpMsAgo: services.now() - lookedUpAt, group: part },
      settings,
    );
  const first = await admitWith({});
  if (!first?.needs) return first;
  const answer = await blockFor(services, { destination, group }, first.needs);
  const second = answer && (await admitWith({ answer }));
  if (answer?.kind === "block" && second?.unused) {
    const { id, sends } = answer.block;
    const ends = [{ block: id, slots: 0, unused: sends }];
    services.background(report(services, { destination, group }, { ends }));
  }
  return second;
}

async function blockFor(services: Services, member: Member, needs: BlockNeeds) {
  const { slots, sends, leaseMs, ends, succeeded } = needs;
  const request = { slots, sends, leaseMs, report: reportOf(member, { ends, succeeded }) };
  return blockAtGroup(services, member.group, request, await settingsOf(services, member.group));
}

function reportOf({ destination, group }: Member, part: Partial<GroupReport>): GroupReport {
  const { id: member, tenant } = destination;
  const none = { ends: [], succeeded: 0, failed: 0, unreached: 0, limited: 0, waitUntil: 0 };
  return { ...none, member, tenant, isOneHost: isGroupOfHost(group), ...part };
}

/** Never rejects, so that a lease is settled even if its group gets no report. */
async function report(services: Services, member: Member, part: Partial<GroupReport>): Promise<boolean> {
  const { group } = member;
  try {
    const settings = await settingsOf(services, group);
    return (await reportToGroup(services, group, reportOf(member, part), settings)) ?? false;
  } catch (error) {
    services.log({ what: "group_unreachable", group, error: faultOf(error) });
    return false;
  }
}

type Ended = Readonly<{ exchange: Exchange; endedAt: number }>;

/** Settles a lease. Outcomes that may concern the whole receiver are reported to the group before. */
export async function settleMember(
  services: Services,
  destination: Destination,
  settlement: SettleRequest,
  { attempts, block }: Readonly<{ attempts: readonly Ended[]; block: string | undefined }>,
): Promise<SettleResult | undefined> {
  const settings = gateSettingsOf(destination);
  const member = await knownMemberOf(services, destination);
  if (member === undefined) return settleAtGate(services, destination.id, settlement, settings);
  const trouble = troubleIn(attempts);
  const counted =
    trouble.failed + trouble.limited > 0 &&
    (await report(services, member, { ...trouble, ...(block !== undefined && { block }) }));
  const result = await settleAtGate(
    services,
    destination.id,
    { ...settlement, ...(counted && { counted }) },
    settings,
  );
  if (result?.over) {
    const over = { ...result.over, ...(block !== undefined && trouble.failed === 0 && { block }) };
    services.background(report(services, member, over));
  }
  return result;
}

/** A 429 is reported at once, because other members must stop too. */
export function reportThrottled(services: Services, destination: Destination, attempt: Ended): void {
  const { limited, waitUntil } = troubleIn([attempt]);
  if (limited === 0 || waitUntil === 0) return;
  const reported = knownMemberOf(services, destination).then(
    (member) => member && report(services, member, { limited, waitUntil }),
  );
  services.background(reported);
}

/** What concerns the receiver as a whole: it failed, it could not be connected to, or it asked for less. */
function troubleIn(attempts: readonly Ended[]) {
  const failures = attempts.filter(({ exchange }) => healthOfExchange(exchange) === "unhealthy");
  const throttled = attempts.filter(({ exchange }) => healthOfExchange(exchange) === "throttled");
  return {
    failed: failures.length,
    unreached: failures.filter(({ exchange }) => isUnreached(exchange)).length,
    limited: throttled.length,
    waitUntil: Math.max(0, ...throttled.map(({ exchange, endedAt }) => holdUntil(exchange, endedAt) ?? 0)),
  };
}

/** No path can cause these. With a status they are an answer, which a path may have forged. */
function isUnreached(exchange: Exchange): boolean {
  const { kind } = exchange;
  return (kind === "refused" || kind === "dns" || kind === "tls") && exchange.status === undefined;
}

/** What other leases have learned of the destination, and other members of its group. */
export async function learnedState(
  services: Services,
  destination: Destination,
): Promise<DestinationState | undefined> {
  const member = await knownMemberOf(services, destination);
  if (member === undefined) return destinationStateAtGate(services, destination.id);
  const [state, standing] = await Promise.all([
    destinationStateAtGate(services, destination.id),
    standingAtGroup(services, member.group),
  ]);
  if (!state || !standing) return state;
  const { heldUntil, openUntil, trips } = standing;
  const now = services.now();
  const circuit =
    openUntil > now ? ({ kind: "open", since: now, until: openUntil, trips } as const) : state.circuit;
  return { ...state, circuit, heldUntil: Math.max(state.heldUntil, heldUntil) };
}
