/** Scenarios of deliveries that an operator sends again. */

import { retryDeliveries } from "../../../src/features/deliveries/repairs.ts";
import { deliveryId } from "../../../src/ids.ts";
import { replay } from "../platform.ts";
import { storedRows, urlOf } from "../world.ts";
import { type Place, resume, type Scenario, SECOND } from "./scenario.ts";

async function replayTheDead({ runtime, destinations: [first = ""] }: Place): Promise<void> {
  await runtime.invoke("begin replay", (services) => replay(services, first, "dead"));
}

/** Two deliveries to the first destination end dead; it accepts all later ones. */
async function twoDead({ world, platform, destinations }: Place): Promise<void> {
  world.receiver.script(urlOf(destinations[0] ?? ""), 400, 400, 204);
  await platform.post(2);
  await platform.deliver();
  platform.later(SECOND);
}

async function retryTheDead({ runtime }: Place): Promise<void> {
  const ids = (await storedRows()).map((row) => deliveryId(row.eventId, row.destinationId));
  // A failing request is answered 503, and the operator repeats it.
  await runtime.invoke("retry", (services) =>
    retryDeliveries({ services, principal: { scopes: ["admin"] } }, ids).catch(() => {}),
  );
}

export const resendingScenarios: readonly Scenario[] = [
  {
    name: "a receiver that is gone, and comes back",
    ends: [["delivered", "dead"]],
    async run(place) {
      const { world, platform, destinations } = place;
      world.receiver.script(urlOf(destinations[0] ?? ""), 410, 204);
      await platform.post(3);
      await platform.deliver();
      await resume(place);
      platform.later(10 * SECOND);
      await platform.drain();
    },
    operator: resume,
  },
  {
    name: "a replay of what is dead",
    // A fault may delay the deaths until after the last replay.
    ends: [["delivered", "dead"]],
    async run(place) {
      const { platform } = place;
      await twoDead(place);
      await replayTheDead(place);
      await platform.drain();
      platform.later(10 * SECOND);
      await platform.drain();
      await platform.cron();
    },
    operator: replayTheDead,
  },
  {
    name: "dead deliveries that are retried by hand",
    ends: [["delivered", "dead"]],
    async run(place) {
      const { platform } = place;
      await twoDead(place);
      await retryTheDead(place);
      await platform.deliver();
    },
    operator: retryTheDead,
  },
  {
    name: "a replay whose next step was lost",
    ends: [["delivered", "dead"]],
    async run(place) {
      const { world, platform, destinations } = place;
      world.receiver.script(urlOf(destinations[0] ?? ""), 400, 204);
      await platform.post(1);
      await platform.deliver();
      platform.later(SECOND);
      world.upkeepQueue.break(true);
      await replayTheDead(place);
      world.upkeepQueue.break(false);
      platform.later(60 * SECOND);
      await platform.cron();
      await platform.drain();
    },
    operator: replayTheDead,
  },
];
