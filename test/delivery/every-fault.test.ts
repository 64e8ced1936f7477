/**
 * Every call that the delivery path makes, failing in every way: before it did anything, after it did all
 * of it, and with the Worker dying right behind it. The calls are not listed anywhere: each story is told
 * once to count them, and then once for each of them and each fault. After the fault everything works again,
 * every message that was ever sent comes three times more, and the same must be true of every telling.
 */
import { describe, expect, test } from "vitest";
import { resumeGate } from "../../src/gate/gate-client.ts";
import type { DeliveryRow } from "../../src/store/work.ts";
import { heal, type Platform, planned, platformOf, replay } from "../support/platform.ts";
import { type Fault, faults, type Wire, wireOf } from "../support/wire.ts";
import { keyOf, keyOfRow, type Sent, witnessOf } from "../support/witness.ts";
import { execute, newDestination, newWorld, storedRows, urlOf, type World } from "../support/world.ts";

const SECOND = 1_000;
const HOLD_S = 60;

type Place = Readonly<{ world: World; platform: Platform; wire: Wire; destinations: readonly string[] }>;

type Story = Readonly<{
  destinations: number;
  tell: (place: Place) => Promise<void>;
  /** What a person does about it when it has gone wrong. */
  person?: (place: Place) => Promise<unknown>;
  /** How each delivery of the destination so numbered must end; several where a fault may decide it. */
  ends: readonly (readonly DeliveryRow["state"][])[];
}>;

const held = () => new Response(null, { status: 503, headers: { "retry-after": String(HOLD_S) } });

async function resume({ wire, destinations }: Pick<Place, "wire" | "destinations">): Promise<void> {
  await execute("UPDATE destinations SET status = 'active', status_reason = NULL");
  for (const destination of destinations) await wire.invoke((services) => resumeGate(services, destination));
}

const stories: Readonly<Record<string, Story>> = {
  "successes, a retry, a hold with its drain, and a death": {
    destinations: 4,
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
  "messages that never reached the queue": {
    destinations: 2,
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
  "a receiver that answers long after its batch": {
    destinations: 2,
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
  "a receiver that is gone, and comes back": {
    destinations: 1,
    ends: [["delivered", "dead"]],
    async tell({ world, platform, wire, destinations: [gone = ""] }) {
      world.receiver.script(urlOf(gone), 410, 204);
      await platform.post(3);
      await platform.deliver();
      await resume({ wire, destinations: [gone] });
      platform.later(10 * SECOND);
      await platform.ring();
    },
    person: resume,
  },
  "a replay of what is dead": {
    destinations: 1,
    // A fault may delay the deaths until after the last replay.
    ends: [["delivered", "dead"]],
    async tell({ world, platform, wire, destinations: [weak = ""] }) {
      world.receiver.script(urlOf(weak), 400, 400, 204);
      await platform.post(2);
      await platform.deliver();
      platform.later(SECOND);
      await wire.invoke((services) => replay(services, weak, "dead"));
      await platform.ring();
      platform.later(10 * SECOND);
      await platform.ring();
      await platform.cron();
    },
    person: ({ wire, destinations: [weak = ""] }) =>
      wire.invoke((services) => replay(services, weak, "dead")),
  },
};

/** Tells the story with one call failing; what is wrong at the end, in sentences. */
async function telling(story: Story, strike: number, fault: Fault) {
  const world = await newWorld();
  const witness = witnessOf(world.services);
  const wire = wireOf({ ...world, services: witness.services });
  const destinations: string[] = [];
  for (let i = 0; i < story.destinations; i++)
    destinations.push(await newDestination({ id: `dst_place${serial++}` }));
  const platform = platformOf(world, wire, destinations);
  if (strike > 0) wire.arm(strike, fault);
  const place = { world, platform, wire, destinations };
  await story.tell(place);
  wire.mend();
  const calls = wire.calls.length;
  await heal(platform, () => story.person?.(place) ?? Promise.resolve());
  const rows = await storedRows();
  const wrong = [
    ...(await endFaults(story, destinations, rows)),
    ...rows.flatMap((row) => countFaults(row, sentTo(witness.sent, row), wire.struck(), fault)),
    ...witness.afterEnd.map((key) => `${key} was sent after it had ended`),
  ];
  return { calls, struck: wire.struck(), wrong };
}

/** Gates outlive a world: each is used in one only. */
let serial = 0;

async function endFaults(
  story: Story,
  destinations: readonly string[],
  rows: readonly DeliveryRow[],
): Promise<string[]> {
  const found = new Map(rows.map((row) => [keyOfRow(row), row]));
  return (await planned()).flatMap((message) => {
    const row = found.get(keyOf(message));
    const allowed = story.ends[destinations.indexOf(message.destination)] ?? [];
    if (row && allowed.includes(row.state)) return [];
    return `${keyOf(message)} is ${row?.state ?? "lost"} (${row?.because}), not ${allowed.join(" or ")}`;
  });
}

/** Only a crash or a lost answer may leave an attempt uncounted, or make a success be repeated. */
function countFaults(
  row: DeliveryRow,
  sent: readonly Sent[],
  struck: string | undefined,
  fault: Fault,
): string[] {
  const key = keyOfRow(row);
  // The log outlives a replay, which begins to count anew.
  const counted = row.log.length;
  const died = struck !== undefined && fault === "crash";
  const unsent = row.log.filter(({ error }) => error !== undefined).length;
  const answerLost = struck?.startsWith("fetch") && fault === "after";
  const made = sent.length + (struck?.startsWith("fetch") && fault === "before" ? unsent : 0);
  const taken = sent.filter(({ status }) => status === 204).length;
  return [
    counted > made && `${key} counts ${counted} attempts, and ${made} were made`,
    counted < made - (died ? 1 : 0) && `${key} counts ${counted} of ${made} attempts`,
    row.replay === null && row.attempts !== counted && `${key} says ${row.attempts} and tells of ${counted}`,
    row.state === "delivered" && taken === 0 && `${key} is said to be delivered`,
    taken > (died || answerLost ? 2 : 1) && `${key} was delivered ${taken} times`,
    new Set(sent.map(({ body }) => body)).size > 1 && `${key} was sent with different bodies`,
  ].filter((line) => line !== false);
}

function sentTo(sent: readonly Sent[], row: DeliveryRow): Sent[] {
  return sent.filter(({ key }) => key === keyOfRow(row));
}

describe.each(Object.entries(stories))("%s", (_, story) => {
  test("ends well when nothing fails", async () => {
    const { calls, wrong } = await telling(story, 0, "before");
    expect(wrong).toEqual([]);
    expect(calls).toBeGreaterThan(5);
  });

  test.each(faults)("loses and miscounts nothing with any one call failing (%s)", async (fault) => {
    const faulty: string[] = [];
    let strike = 1;
    for (; ; strike++) {
      const { struck, wrong } = await telling(story, strike, fault);
      if (struck === undefined) break;
      faulty.push(...wrong.map((line) => `call ${strike}, ${struck}: ${line}`));
    }
    console.log(`${strike - 1} calls failing (${fault})`);
    expect(faulty).toEqual([]);
    expect(strike).toBeGreaterThan(5);
  }, 300_000);
});
