/** One step of a drain: look at what waits, ask for it, work off what was let in. */
import { type BundlePart, eventAt, indexesOf, partsOf } from "../core/bundle.ts";
import { reportNothingWaits } from "../gate/gate-client.ts";
import type { Answer } from "../policy/ask.ts";
import { LEASED, type Reach } from "../policy/reach.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { sumOver } from "../store/shards.ts";
import { buryOrphans, cancelWaiting } from "../store/waiting-ends.ts";
import { lookAtWaiting } from "../store/waiting-look.ts";
import { loadWork, type Work } from "../store/work.ts";
import { attemptGroups, hasCome } from "./attempt-groups.ts";
import { sendAgain } from "./carry.ts";
import type { Connections } from "./connections.ts";
import { type Group, type GroupRun, startGroup } from "./group.ts";
import { sortOut } from "./sort-out.ts";
import { countDead } from "./tell-dead.ts";
import type { Verdict } from "./verdicts.ts";

/** How long it starts attempts under one lease, and how long it awaits one. */
const STEP_MS = 3_000;
/** Deliveries of a deleted destination cancelled in one step. */
const CANCELLED = 500;

/**
 * `more`: go on. `crowded`: look further, because others hold most of what is here. `gate`: the gate will
 * send for the next drain. `empty`: nothing waits.
 */
export type Step = "more" | "crowded" | "gate" | "empty";

export type StepOrder = Readonly<{
  /** Of the destination. */
  id: string;
  reach: Reach;
  /** Deliveries that it may take under a lease. */
  portion: number;
  /** Of the drain's time. */
  leftMs: number;
}>;

export async function drainStep(
  services: Services,
  shared: Connections,
  { id, reach, portion, leftMs }: StepOrder,
): Promise<Step> {
  const lookedAt = services.now();
  const { destination, events, probe, isAll } = await lookAtWaiting(services, id, reach, services.random);
  if (events.length === 0) {
    await reportNothingWaits(services, id, lookedAt);
    return "empty";
  }
  if (!destination || destination.deletedAt !== null) {
    const cancelled = await sumOver(services, (db) => cancelWaiting(db, id, lookedAt, CANCELLED));
    services.log({ what: "deliveries_cancelled", destination: id, deliveries: cancelled });
    return "more";
  }
  const startWithinMs = Math.min(STEP_MS, leftMs);
  const ask = {
    lane: "backlog",
    deliveries: events,
    most: portion,
    startWithinMs,
    ...(probe && { probe }),
  } as const;
  const { answer, late, isIdle } = await attempt(services, shared, destination, ask);
  if (late || isIdle || !answer || answer.refused) return "gate";
  if (isCrowded(answer, events.length) && !isAll && !reach.isFurthest) return "crowded";
  return answer.grant ? "more" : "gate";
}

/** Whether others hold so much of what was looked at that it was not worth the asking. */
function isCrowded({ inFlight }: Answer, lookedAt: number): boolean {
  return inFlight !== null && lookedAt - inFlight.deliveries.length < LEASED / 2;
}

type Attempted = Pick<GroupRun, "answer"> &
  Readonly<{
    late: boolean;
    /** It was let in, and nothing has come of it: the gate has a drain come again in a while. */
    isIdle: boolean;
  }>;

async function attempt(
  services: Services,
  shared: Connections,
  destination: Destination,
  ask: Group["ask"],
): Promise<Attempted> {
  const over: Verdict[] = [];
  const load = async (granted: readonly number[]) => {
    const wanted = granted.map((event) => ({ event, destination: destination.id }));
    const { works, unknown, rest } = await loadWork(services, partsOf(wanted));
    const { due, verdicts } = sortOut(services, inOrder(works, granted), "drain");
    const left = [...rest, ...unknown].flatMap(eventsOf);
    const known = new Set([...works.map(({ event }) => event.id), ...left]);
    await endOrphans(
      services,
      destination,
      granted.filter((event) => !known.has(event)),
    );
    over.push(...verdicts);
    return { works: due, left: left.length };
  };
  const groupRun = await startGroup(services, shared, { destination, ask, patienceMs: STEP_MS, load });
  const { answer } = groupRun;
  const continues = Boolean(answer?.grant && !answer.refused);
  const { verdicts, late } = await attemptGroups(services, [groupRun], {
    also: over,
    continues,
  });
  await sendAgain(
    services,
    verdicts.filter(({ row }) => row?.state === "retrying"),
  );
  return { answer, late, isIdle: Boolean(answer?.grant) && !hasCome(verdicts) };
}

/** As they were granted: the order in which they are to go. */
function inOrder(works: readonly Work[], granted: readonly number[]): readonly Work[] {
  const places = new Map(granted.map((event, place) => [event, place]));
  return works.toSorted((a, b) => (places.get(a.event.id) ?? 0) - (places.get(b.event.id) ?? 0));
}

function eventsOf({ bundle, indexes = [] }: BundlePart): number[] {
  return indexesOf(indexes).map((index) => eventAt(bundle, index));
}

/** What no bundle's plan has for the destination any more. */
async function endOrphans(
  services: Services,
  destination: Destination,
  events: readonly number[],
): Promise<void> {
  if (events.length === 0) return;
  const { id } = destination;
  const count = await buryOrphans(services, id, events, services.now());
  services.log({ what: "deliveries_dead", destination: id, because: "event_removed", deliveries: count });
  services.background(countDead(services, destination, count));
}
