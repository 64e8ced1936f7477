/**
 * The drain: works off what waits for one destination, as far as its gate allows and its time lasts.
 *
 * It is sent for by the gate's bell. When the gate refuses, the next bell is set by that refusal; when its
 * own time is over, it sends for the next drain itself; when nothing is left, it tells the gate. A drain
 * that dies loses nothing: its lease expires, and the bell rings then.
 */
import { reportNothingWaits } from "../gate/gate-client.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { sumOver } from "../store/shards.ts";
import { waitingFor } from "../store/waiting.ts";
import { buryOrphans, cancelWaiting } from "../store/waiting-ends.ts";
import { loadWork } from "../store/work.ts";
import { attemptGroups } from "./attempt-groups.ts";
import { sendAgain } from "./carry.ts";
import { type Connections, connections } from "./connections.ts";
import { startGroup } from "./group.ts";
import { type DrainMessage, drainMessage, replayMessage, tollMessage } from "./message.ts";
import { stepReplay } from "./replay.ts";
import { sortOut } from "./sort-out.ts";
import { countDead } from "./tell-dead.ts";
import { askForToll } from "./toll.ts";
import type { Verdict } from "./verdicts.ts";

/** How long one drain works. Short, so that a queue of drains moves on; what it costs to send for one is little beside it. */
const BUDGET_MS = 6_000;
/** How long it starts attempts under one lease, and how long it awaits one. */
const STEP_MS = 3_000;
/** Before a drain that failed is tried again. */
const PAUSE_S = 10;
/** Deliveries that one drain leases at once. It looks at as many for each drain at work beside it. */
const LEASED = 60;
/** Deliveries of a deleted destination cancelled in one step. */
const CANCELLED = 500;

/** `more`: go on. `gate`: the gate will send for the next drain. `empty`: nothing waits. */
type Step = "more" | "gate" | "empty";

/** The consumer of the bells: each drain by itself, all over the same connections. Replays take their steps here too, and tolls are asked for. */
export async function answerBells(services: Services, batch: MessageBatch): Promise<void> {
  const shared = connections(batch.messages.length);
  await Promise.all(
    batch.messages.map(async (message) => {
      try {
        const bell = drainMessage(message.body);
        if (bell) await drain(services, shared, bell);
        const step = replayMessage(message.body);
        if (step) await stepReplay(services, step.replay);
        const asked = tollMessage(message.body);
        if (asked) await askForToll(services, asked.toll);
      } catch (error) {
        services.log({ what: "drain_failed", error: faultOf(error) });
        message.retry({ delaySeconds: PAUSE_S });
      }
    }),
  );
}

async function drain(services: Services, shared: Connections, bell: DrainMessage): Promise<void> {
  const endsAt = services.now() + BUDGET_MS;
  let step: Step = "more";
  while (step === "more" && services.now() < endsAt) {
    step = await drainStep(services, shared, bell, Math.min(STEP_MS, endsAt - services.now()));
  }
  if (step === "more") await services.drains.send(bell);
}

async function drainStep(
  services: Services,
  shared: Connections,
  { destination: id, drains }: DrainMessage,
  budgetMs: number,
): Promise<Step> {
  const lookedAt = services.now();
  const { destination, events } = await waitingFor(services, id, (LEASED / 2) * drains);
  if (events.length === 0) {
    await reportNothingWaits(services, id, lookedAt);
    return "empty";
  }
  if (!destination || destination.deletedAt !== null) {
    const cancelled = await sumOver(services, (db) => cancelWaiting(db, id, lookedAt, CANCELLED));
    services.log({ what: "deliveries_cancelled", destination: id, deliveries: cancelled });
    return "more";
  }
  return attemptWaiting(services, shared, destination, events, budgetMs);
}

async function attemptWaiting(
  services: Services,
  shared: Connections,
  destination: Destination,
  events: readonly number[],
  budgetMs: number,
): Promise<Step> {
  const over: Verdict[] = [];
  const load = async (granted: readonly number[]) => {
    const wanted = granted.map((event) => ({ event, destination: destination.id }));
    const works = await loadWork(services, wanted);
    if (works.includes(undefined)) await endOrphans(services, destination, granted);
    const { due, verdicts } = sortOut(
      services,
      works.filter((work) => work !== undefined),
      "drain",
    );
    over.push(...verdicts);
    return due;
  };
  const ask = { lane: "backlog", deliveries: events, most: LEASED, startWithinMs: budgetMs } as const;
  const groupRun = await startGroup(services, shared, { destination, ask, patienceMs: STEP_MS, load });
  const continues = Boolean(groupRun.answer?.grant && !groupRun.answer.refused);
  const { verdicts, late } = await attemptGroups(services, [groupRun], { also: over, continues });
  await sendAgain(
    services,
    verdicts.filter(({ row }) => row?.state === "retrying"),
  );
  return continues && !late ? "more" : "gate";
}

async function endOrphans(
  services: Services,
  destination: Destination,
  events: readonly number[],
): Promise<void> {
  const { id } = destination;
  const count = await buryOrphans(services, id, events, services.now());
  services.log({ what: "deliveries_dead", destination: id, because: "event_removed", deliveries: count });
  services.background(countDead(services, destination, count));
}
