/** Scenarios of deliveries that an operator has sent again. */
import { replay } from "../platform.ts";
import { urlOf } from "../world.ts";
import { type Place, resume, type Scenario, SECOND } from "./scenario.ts";

async function replayTheDead({ runtime, destinations: [first = ""] }: Place): Promise<void> {
  await runtime.invoke("begin replay", (services) => replay(services, first, "dead"));
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
      const { world, platform, destinations } = place;
      world.receiver.script(urlOf(destinations[0] ?? ""), 400, 400, 204);
      await platform.post(2);
      await platform.deliver();
      platform.later(SECOND);
      await replayTheDead(place);
      await platform.drain();
      platform.later(10 * SECOND);
      await platform.drain();
      await platform.cron();
    },
    operator: replayTheDead,
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
