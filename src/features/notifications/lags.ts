/**
 * Publishes that a consumer of a polled destination lags behind, and that it no longer does: each once. The thresholds' round
 * over the fleet (thresholds.ts) checks the consumers, so a lag is found within a quarter of an hour, and in a large fleet
 * within a whole round.
 *
 * The gate remembers known lags. A lag is noted, published under its time, and noted as published: an invocation that dies
 * between leaves one that the next round publishes under the same key.
 */
import type { LagChange } from "../../gate/inbox.ts";
import { atInbox } from "../../gate/inbox-client.ts";
import { orLogged } from "../../log.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import { type ConsumerLag, lagsOf } from "../polling/lag.ts";
import { lagEvent } from "./operational-events.ts";
import { publish } from "./publish.ts";

/** Checks the consumers of those destinations that are polled and active. A failure is logged: the next round checks again. */
export async function checkLags(services: Services, destinations: readonly Destination[]): Promise<void> {
  await orLogged(services, { what: "lags_not_checked" }, async () => {
    const active = destinations.filter(({ status }) => status !== "paused");
    const steps = (await lagsOf(services, active)).flatMap((lag) => stepOf(services, lag) ?? []);
    for (const [id, own] of Map.groupBy(steps, ({ lag }) => lag.destination.id))
      await publishLags(services, id, own);
  });
}

/** A lag that begins or ends. `since` distinguishes it from the consumer's other lags. */
type Step = Readonly<{ lag: ConsumerLag; isEnd: boolean; since: number }>;

function stepOf({ config, now }: Services, lag: ConsumerLag): Step | undefined {
  const { lagging } = lag.consumer;
  const isEnd = lag.lagMs <= config.pollLagMs;
  const isNews = isEnd ? lagging !== undefined : lagging?.isPublished !== true;
  return isNews ? { lag, isEnd, since: lagging?.since ?? now() } : undefined;
}

async function publishLags(services: Services, destination: string, steps: readonly Step[]): Promise<void> {
  const note = (is: (step: Step) => LagChange["is"]) => {
    const changes = steps.map((step) => ({
      consumer: step.lag.consumer.name,
      is: is(step),
      since: step.since,
    }));
    return atInbox(services, destination, "noteLags", changes);
  };
  if (!(await note(({ isEnd }) => (isEnd ? "published" : "begun")))) return;
  for (const { lag, isEnd } of steps) {
    const { consumer, lagMs } = lag;
    const what = isEnd ? "consumer_caught_up" : "consumer_lagging";
    services.log({ what, destination, consumer: consumer.name, lag_ms: lagMs });
  }
  const at = services.now();
  await publish(
    services,
    steps.map(({ lag, isEnd, since }) => {
      const { name, fetchedAt } = lag.consumer;
      return lagEvent(lag.destination, { consumer: name, lagMs: lag.lagMs, fetchedAt, isEnd, since }, at);
    }),
  );
  await note(({ isEnd }) => (isEnd ? "ended" : "published"));
}
