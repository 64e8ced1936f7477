/** Scenarios of deliveries that are sent as soon as the gate admits them. */
import { urlOf } from "../world.ts";
import { held, type Scenario, SECOND } from "./scenario.ts";

export const sendingScenarios: readonly Scenario[] = [
  {
    name: "successes, a retry, a hold with its drain, and a death",
    ends: [["delivered"], ["delivered"], ["delivered"], ["dead"]],
    async run({ world, platform, destinations: [, weak = "", busy = "", wrong = ""] }) {
      world.receiver.script(urlOf(weak), 500, 204);
      world.receiver.script(urlOf(busy), held, 204);
      world.receiver.script(urlOf(wrong), 400);
      await platform.post(2);
      await platform.deliver();
      platform.later(40 * SECOND);
      await platform.deliver();
      platform.later(30 * SECOND);
      await platform.deliver();
      await platform.drain();
    },
  },
  {
    name: "a receiver that answers long after its batch",
    ends: [["delivered"], ["delivered"]],
    async run({ world, platform, destinations: [slow = ""] }) {
      const late = (status: number) => () =>
        world.clock.sleep(4 * SECOND).then(() => new Response(null, { status }));
      world.receiver.script(urlOf(slow), late(500), late(204), 204);
      await platform.post(3);
      await platform.deliver();
      platform.later(40 * SECOND);
      await platform.deliver();
      await platform.drain();
      platform.later(10 * SECOND);
      await platform.drain();
    },
  },
  {
    name: "a message that the platform has given up before anything was attempted",
    ends: [["delivered"]],
    async run({ platform }) {
      await platform.post(2);
      await platform.deadLetter();
      platform.later(2 * SECOND);
      await platform.drain();
    },
  },
  {
    name: "a message that the platform has given up after an attempt, and then those of its deliveries alone",
    // When the dead-letter consumer fails, another message may deliver it first.
    ends: [["dead", "delivered"]],
    async run({ world, platform, destinations: [weak = ""] }) {
      world.receiver.script(urlOf(weak), 500, 500, 204);
      await platform.post(2);
      await platform.deliver();
      await platform.deadLetter();
      await platform.deadLetter();
    },
  },
];
