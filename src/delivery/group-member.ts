/**
 * Members of a group: objects never call each other, so a Worker carries what a gate needs to the group, the group's block
 * to the gate, and outcomes and ends of blocks back.
 */
import type { AdmitRequest, AdmitResult } from "../core/admit.ts";
import { laterByOwnClock } from "../core/clocks.ts";
import type { DestinationState } from "../core/destination-state.ts";
import type { GroupSettings } from "../core/group/group-state.ts";
import type { BlockNeeds, GroupPart } from "../core/group/member.ts";
import { isGroupOfHost } from "../core/group/name.ts";
import type { GroupReport } from "../core/group/report.ts";
import { type Exchange, healthOfExchange } from "../core/retry/classify.ts";
import { holdUntil } from "../core/retry/transition.ts";
import type { SettleRequest, SettleResult } from "../core/settle.ts";
import { admitAtGate, settleAtGate, stateAtGate } from "../gate/client.ts";
import { atGroup } from "../gate/group-client.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { type Destination, gateSettingsOf } from "../store/destination.ts";
import { findGroup, groupSettingsOf } from "../store/group.ts";

/** How long an isolate remembers a group's limits. */
const REMEMBERED_MS = 10_000;

/** The group's limits, at most ten seconds old. Rejects while they cannot be read: nothing is sent without them. */
async function settingsOf({ db, memory, now }: Services, group: string): Promise<GroupSettings> {
  const known = memory.groupSettings.get(group);
  if (known && known.until > now()) return known.settings;
  const settings = groupSettingsOf(await findGroup(db, group));
  memory.groupSettings.set(group, { settings, until: now() + REMEMBERED_MS });
  return settings;
}

export type Member = Readonly<{ destination: Destination; group: string }>;

/** Queries the gate, and where it needs a block, the group and then the gate again. Undefined when one of them cannot be reached. */
export async function admitMember(
  services: Services,
  { destination, group }: Member,
  request: AdmitRequest,
  lookedUpAt: number,
): Promise<AdmitResult | undefined> {
  const settings = gateSettingsOf(destination);
  const admitWith = (part: Omit<GroupPart, "name">) =>
    admitAtGate(
      services,
      destination.id,
      { ...request, lookedUpMsAgo: services.now() - lookedUpAt, group: { name: group, ...part } },
      settings,
    );
  const first = await admitWith({});
  if (!first?.needs) return first;
  const answer = await blockFor(services, { destination, group }, first.needs);
  const second = answer && (await admitWith({ answered: { answer, askedAt: first.needs.askedAt } }));
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
  return atGroup(services, member.group, "deal", request, await settingsOf(services, member.group));
}

function reportOf({ destination, group }: Member, part: Partial<GroupReport>): GroupReport {
  const { id: member, tenant } = destination;
  const none = { ends: [], succeeded: 0, failed: 0, unreached: 0, limited: 0, waitMs: 0 };
  return { ...none, member, tenant, isOneHost: isGroupOfHost(group), ...part };
}

/** Never rejects, so that a lease is settled even if its group gets no report. */
async function report(services: Services, member: Member, part: Partial<GroupReport>): Promise<boolean> {
  const { group } = member;
  try {
    const settings = await settingsOf(services, group);
    return (await atGroup(services, group, "report", reportOf(member, part), settings)) ?? false;
  } catch (error) {
    services.log({ what: "group_unreachable", group, error: faultOf(error) });
    return false;
  }
}

export type Ended = Readonly<{ exchange: Exchange; endedAt: number }>;

/** A lease's attempts, and the group's block that they were made of. */
export type LeaseAttempts = Readonly<{ attempts: readonly Ended[]; block: string | undefined }>;

/** Settles a lease. Outcomes that may concern the whole receiver are reported to the group before. */
export async function settleMember(
  services: Services,
  member: Member,
  settlement: SettleRequest,
  { attempts, block }: LeaseAttempts,
): Promise<SettleResult | undefined> {
  const { destination } = member;
  const settings = gateSettingsOf(destination);
  const trouble = troubleIn(attempts, services.now());
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

/** Reports a 429 that says how long to wait. */
export async function reportLimited(services: Services, member: Member, attempt: Ended): Promise<void> {
  const { limited, waitMs } = troubleIn([attempt], services.now());
  if (waitMs > 0) await report(services, member, { limited, waitMs });
}

/** Outcomes that concern the receiver as a whole: it failed, could not be connected to, or asked for less. */
function troubleIn(attempts: readonly Ended[], now: number) {
  const failures = attempts.filter(({ exchange }) => healthOfExchange(exchange) === "unhealthy");
  const throttled = attempts.filter(({ exchange }) => healthOfExchange(exchange) === "throttled");
  return {
    failed: failures.length,
    unreached: failures.filter(({ exchange }) => isUnreached(exchange)).length,
    limited: throttled.length,
    waitMs: Math.max(
      0,
      ...throttled.map(({ exchange, endedAt }) => (holdUntil(exchange, endedAt) ?? now) - now),
    ),
  };
}

/** A path cannot cause these. With a status they are an answer, which a path may have forged. */
function isUnreached(exchange: Exchange): boolean {
  const { kind } = exchange;
  return (kind === "refused" || kind === "dns" || kind === "tls") && exchange.status === undefined;
}

export async function learnedMemberState(
  services: Services,
  { destination, group }: Member,
): Promise<DestinationState | undefined> {
  const askedAt = services.now();
  const [state, standing] = await Promise.all([
    stateAtGate(services, destination.id),
    atGroup(services, group, "standing"),
  ]);
  if (!state || !standing) return state;
  const now = services.now();
  const later = laterByOwnClock({ at: standing.at, askedAt }, now);
  const until = standing.openUntil + later;
  const circuit =
    until > now ? ({ kind: "open", since: now, until, trips: standing.trips } as const) : state.circuit;
  return { ...state, circuit, heldUntil: Math.max(state.heldUntil, standing.heldUntil + later) };
}
