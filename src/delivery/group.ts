/**
 * One destination's share of a batch: asked for at the gate, run under its lease, and told apart into what
 * is to be written. The queue's consumer and the drain are both made of this.
 */
import { askGate, settleGate } from "../gate/gate-client.ts";
import type { Answer, Refusal } from "../policy/admission.ts";
import type { Lane } from "../policy/lease.ts";
import type { Services } from "../services.ts";
import { gateSettingsOf, retryPolicyOf } from "../store/destination-settings.ts";
import type { Work } from "../store/work.ts";
import { CONNECTIONS, type Connections } from "./connections.ts";
import { type LeaseRun, runLease } from "./run-lease.ts";

/** Deliveries of one destination that go through the gate together. */
export type Group = Readonly<{ lane: Lane; works: readonly [Work, ...Work[]] }>;

export type GroupRun = Readonly<{
  group: Group;
  /** Undefined when the gate could not be reached: nothing was decided. */
  answer: Answer | undefined;
  /** Undefined without a lease. */
  run: LeaseRun | undefined;
  /** When the lease ends by itself, by this worker's clock. */
  recoverAt: number;
}>;

/** Asks the gate for the group and starts what it lets in. */
export async function startGroup(
  services: Services,
  connections: Connections,
  group: Group,
  startWithinMs: number,
): Promise<GroupRun> {
  const { destination } = group.works[0];
  const settings = gateSettingsOf(destination);
  const askedAt = services.now();
  const deliveries = group.works.map(({ event }) => event.id);
  const ask = { lane: group.lane, deliveries, connections: CONNECTIONS, startWithinMs };
  const answer = await askGate(services, destination.id, ask, settings);
  const grant = answer?.grant;
  const works = grant ? worksOf(group, grant.deliveries) : [];
  const order = { destination: destination.id, works, settings, policy: retryPolicyOf(destination), askedAt };
  const run = grant ? runLease(services, connections, { ...order, grant }) : undefined;
  return { group, answer, run, recoverAt: askedAt + (grant?.expiresInMs ?? 0) };
}

/** Reports the run to the gate, after its outcomes are recorded. */
export async function settleGroup(services: Services, { group, answer, run }: GroupRun): Promise<void> {
  const grant = answer?.grant;
  if (!grant || !run) return;
  const { destination } = group.works[0];
  const settlement = {
    lease: grant.id,
    signs: run.signs,
    left: run.queue.length,
    unsent: grant.deliveries.length - run.signs.length,
  };
  await settleGate(services, destination.id, settlement, gateSettingsOf(destination));
}

/** Why what a run has left over must wait. */
export function leftoverReason(run: LeaseRun, now: number): Refusal {
  return run.shut() ?? { reason: "slow", until: now };
}

export function worksOf({ works }: Group, deliveries: readonly number[]): Work[] {
  const named = new Set(deliveries);
  return works.filter(({ event }) => named.has(event.id));
}
