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
import { cancelWaiting, waitingFor } from "../store/waiting.ts";
import { loadWork, type Work } from "../store/work.ts";
import { attemptGroups } from "./attempt-groups.ts";
import { sendAgain } from "./carry.ts";
import { type Connections, connections } from "./connections.ts";
import { startGroup } from "./group.ts";
import { type DrainMessage, drainMessage } from "./message.ts";
import { report } from "./report.ts";
import { sortOut } from "./sort-out.ts";

/** How long one drain works. Short, so that a queue of drains moves on. */
const BUDGET_MS = 3_000;
/** Before a drain that failed is tried again. */
const PAUSE_S = 10;
/** Deliveries looked at from each end in one step. */
const PER_END = 30;
/** Deliveries of a deleted destination cancelled in one step. */
const CANCELLED = 500;

/** `more`: go on. `gate`: the gate will send for the next drain. `empty`: nothing waits. */
type Step = "more" | "gate" | "empty";

/** The consumer of the bells: each drain by itself, all over the same connections. */
export async function answerBells(services: Services, batch: MessageBatch): Promise<void> {
  const shared = connections();
  await Promise.all(
    batch.messages.map(async (message) => {
      try {
        const bell = drainMessage(message.body);
        if (bell) await drain(services, shared, bell);
      } catch (error) {
        services.log({ what: "drain_failed", error: faultOf(error) });
        message.retry({ delaySeconds: PAUSE_S });
      }
    }),
  );
}

async function drain(services: Services, shared: Connections, { destination }: DrainMessage): Promise<void> {
  const endsAt = services.now() + BUDGET_MS;
  let step: Step = "more";
  while (step === "more" && services.now() < endsAt) {
    step = await drainStep(services, shared, destination, endsAt - services.now());
  }
  if (step === "more") await services.drains.send({ destination });
}

async function drainStep(
  services: Services,
  shared: Connections,
  id: string,
  budgetMs: number,
): Promise<Step> {
  const lookedAt = services.now();
  const { destination, events } = await waitingFor(services.db, id, PER_END);
  if (events.length === 0) {
    await reportNothingWaits(services, id, lookedAt);
    return "empty";
  }
  if (destination?.deletedAt !== null) {
    await cancelWaiting(services.db, id, lookedAt, CANCELLED);
    return "more";
  }
  const works = await loadWork(
    services.db,
    events.map((event) => ({ event, destination: id })),
  );
  return attemptWaiting(
    services,
    shared,
    works.filter((work) => work !== undefined),
    budgetMs,
  );
}

async function attemptWaiting(
  services: Services,
  shared: Connections,
  works: readonly Work[],
  budgetMs: number,
): Promise<Step> {
  const { due, verdicts: over } = sortOut(services, works, "drain");
  await report(services, over);
  const [first, ...rest] = due;
  if (!first) return "more";
  const groupRun = await startGroup(services, shared, { lane: "backlog", works: [first, ...rest] }, budgetMs);
  const { verdicts, late } = await attemptGroups(services, [groupRun], budgetMs);
  await sendAgain(
    services,
    verdicts.filter(({ row }) => row?.state === "retrying"),
  );
  return groupRun.answer?.grant && !groupRun.answer.refused && !late ? "more" : "gate";
}
