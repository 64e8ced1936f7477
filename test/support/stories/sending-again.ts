/** Stories of what is sent again because a person wants it so. */
import { replay } from "../platform.ts";
import { urlOf } from "../world.ts";
import { type Place, resume, SECOND, type Story } from "./story.ts";

async function replayTheDead({ wire, destinations: [first = ""] }: Place): Promise<void> {
  await wire.invoke("begin replay", (services) => replay(services, first, "dead"));
}

export const storiesOfSendingAgain: readonly Story[] = [
  {
    name: "a receiver that is gone, and comes back",
    ends: [["delivered", "dead"]],
    async tell(place) {
      const { world, platform, destinations } = place;
      world.receiver.script(urlOf(destinations[0] ?? ""), 410, 204);
      await platform.post(3);
      await platform.deliver();
      await resume(place);
      platform.later(10 * SECOND);
      await platform.ring();
    },
    person: resume,
  },
  {
    name: "a replay of what is dead",
    // A fault may delay the deaths until after the last replay.
    ends: [["delivered", "dead"]],
    async tell(place) {
      const { world, platform, destinations } = place;
      world.receiver.script(urlOf(destinations[0] ?? ""), 400, 400, 204);
      await platform.post(2);
      await platform.deliver();
      platform.later(SECOND);
      await replayTheDead(place);
      await platform.ring();
      platform.later(10 * SECOND);
      await platform.ring();
      await platform.cron();
    },
    person: replayTheDead,
  },
  {
    name: "a replay whose next step was lost",
    ends: [["delivered", "dead"]],
    async tell(place) {
      const { world, platform, destinations } = place;
      world.receiver.script(urlOf(destinations[0] ?? ""), 400, 204);
      await platform.post(1);
      await platform.deliver();
      platform.later(SECOND);
      world.drainQueue.break(true);
      await replayTheDead(place);
      world.drainQueue.break(false);
      platform.later(60 * SECOND);
      await platform.cron();
      await platform.ring();
    },
    person: replayTheDead,
  },
];
