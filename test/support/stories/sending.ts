/** Stories of what is sent as soon as it may be. */
import { urlOf } from "../world.ts";
import { held, SECOND, type Story } from "./story.ts";

export const storiesOfSending: readonly Story[] = [
  {
    name: "successes, a retry, a hold with its drain, and a death",
    ends: [["delivered"], ["delivered"], ["delivered"], ["dead"]],
    async tell({ world, platform, destinations: [, weak = "", busy = "", wrong = ""] }) {
      world.receiver.script(urlOf(weak), 500, 204);
      world.receiver.script(urlOf(busy), held, 204);
      world.receiver.script(urlOf(wrong), 400);
      await platform.post(2);
      await platform.deliver();
      platform.later(40 * SECOND);
      await platform.deliver();
      platform.later(30 * SECOND);
      await platform.deliver();
      await platform.ring();
    },
  },
  {
    name: "a receiver that answers long after its batch",
    ends: [["delivered"], ["delivered"]],
    async tell({ world, platform, destinations: [slow = ""] }) {
      const late = (status: number) => () =>
        world.clock.sleep(4 * SECOND).then(() => new Response(null, { status }));
      world.receiver.script(urlOf(slow), late(500), late(204), 204);
      await platform.post(3);
      await platform.deliver();
      platform.later(40 * SECOND);
      await platform.deliver();
      await platform.ring();
      platform.later(10 * SECOND);
      await platform.ring();
    },
  },
  {
    name: "a message that the platform has given up",
    // Whoever comes first: its burial may fail, and then another message brings it.
    ends: [["dead", "delivered"]],
    async tell({ platform }) {
      await platform.post(2);
      await platform.bury();
    },
  },
];
