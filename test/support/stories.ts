/**
 * Small stories of the delivery path, which between them make every call that it can make: told over a wire,
 * so that any one call of theirs can be made to fail.
 */
import { resumeGate } from "../../src/gate/gate-client.ts";
import type { DeliveryRow } from "../../src/store/work.ts";
import { type Platform, replay } from "./platform.ts";
import type { Wire } from "./wire.ts";
import { execute, urlOf, type World } from "./world.ts";

const SECOND = 1_000;
const HOLD_S = 60;

export type Place = Readonly<{
  world: World;
  platform: Platform;
  wire: Wire;
  destinations: readonly string[];
}>;

export type Story = Readonly<{
  name: string;
  tell: (place: Place) => Promise<void>;
  /** What a person does about it when it has gone wrong. */
  person?: (place: Place) => Promise<unknown>;
  /** How each delivery of the destination so numbered must end; several where a fault may decide it. */
  ends: readonly (readonly DeliveryRow["state"][])[];
}>;

const held = () => new Response(null, { status: 503, headers: { "retry-after": String(HOLD_S) } });

async function resume({ wire, destinations }: Place): Promise<void> {
  await execute("UPDATE destinations SET status = 'active', status_reason = NULL");
  for (const destination of destinations)
    await wire.invoke("resume", (services) => resumeGate(services, destination));
}

async function replayAll({ wire, destinations: [first = ""] }: Place): Promise<void> {
  await wire.invoke("begin replay", (services) => replay(services, first, "dead"));
}

export const stories: readonly Story[] = [
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
    name: "messages that never reached the queue",
    ends: [["delivered"], ["delivered"]],
    async tell({ world, platform }) {
      world.deliveryQueue.break(true);
      await platform.post(2);
      world.deliveryQueue.break(false);
      platform.later(30 * SECOND);
      await platform.cron();
      platform.later(2 * SECOND);
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
      await replayAll(place);
      await platform.ring();
      platform.later(10 * SECOND);
      await platform.ring();
      await platform.cron();
    },
    person: replayAll,
  },
];
