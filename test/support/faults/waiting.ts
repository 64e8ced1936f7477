/** Scenarios of deliveries that wait: lost, refused by the gate, or too many for one drain. */
import { execute, urlOf } from "../world.ts";
import { DAY, held, type Scenario, SECOND } from "./scenario.ts";

export const waitingScenarios: readonly Scenario[] = [
  {
    name: "messages that never reached the queue",
    ends: [["delivered"], ["delivered"]],
    async run({ world, platform }) {
      world.deliveryQueue.break(true);
      await platform.post(2);
      world.deliveryQueue.break(false);
      platform.later(30 * SECOND);
      await platform.cron();
      platform.later(2 * SECOND);
      await platform.drain();
    },
  },
  {
    name: "a pause that outlasts the age limit of what it holds, and a deletion",
    // A cancellation that a fault delays for days comes too late: the age limit ends the delivery first.
    ends: [["dead"], ["cancelled", "dead"]],
    async run({ world, platform, destinations: [paused, deleted] }) {
      await execute("UPDATE destinations SET status = 'paused'");
      await platform.post(2);
      await platform.deliver();
      await execute("UPDATE destinations SET deleted_at = ?2 WHERE id = ?1", deleted, world.clock.now());
      platform.later(30 * SECOND);
      await platform.cron();
      await platform.drain();
      platform.later(20 * DAY);
      await execute("UPDATE destinations SET status = 'active' WHERE id = ?1", paused);
      await platform.cron();
    },
  },
  {
    name: "a backlog that outlasts its drain",
    ends: [["delivered"]],
    async run({ world, platform, destinations: [slow = ""] }) {
      const slowly = () => world.clock.sleep(2 * SECOND).then(() => new Response(null, { status: 204 }));
      world.receiver.script(urlOf(slow), held, slowly);
      await execute("UPDATE destinations SET max_concurrency = 1");
      await platform.post(5);
      await platform.deliver();
      platform.later(61 * SECOND);
      await platform.drain();
      await platform.drain();
    },
  },
];
