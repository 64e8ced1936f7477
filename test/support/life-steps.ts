/** The steps of a random history: what customers, receivers, people, the platform and the clock do. */
import { evictDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { expect } from "vitest";
import { requeueDead } from "../../src/db/deliveries.ts";
import { changeReplay, replayUnderWay } from "../../src/db/replays.ts";
import { resumeAtGate, scheduleDrainAtGate } from "../../src/gate/client.ts";
import { enqueueReplayStep } from "../../src/replay/run.ts";
import { compare, GIVE_UP_MS, type Model } from "./life-model.ts";
import { type Platform, replay } from "./platform.ts";
import type { Script } from "./receivers.ts";
import { nth, type Wire } from "./wire.ts";
import { keyOfRow, type Witness } from "./witness.ts";
import { execute, gateOf, storedRows, urlOf, type World } from "./world.ts";

const MINUTE = 60_000;

export const lifeDestinations = [
  { id: "dst_life0", maxConcurrency: 1 },
  { id: "dst_life1", maxConcurrency: 10 },
] as const;

export type Real = Readonly<{
  world: World;
  wire: Wire;
  witness: Witness;
  platform: Platform;
  destinations: readonly string[];
}>;

export type Step = fc.AsyncCommand<Model, Real>;

/** What the receivers take at once, by URL. */
const limits: readonly (readonly [url: string, most: number])[] = lifeDestinations.map(
  ({ id, maxConcurrency }) => [urlOf(id), maxConcurrency],
);

type Act = (real: Real, model: Model) => Promise<unknown>;

function step(name: string, act: Act, crashAt?: number): Step {
  return {
    check: () => true,
    toString: () => (crashAt === undefined ? name : `${name}, crashing at call ${crashAt}`),
    async run(model, real) {
      const { wire, witness, world } = real;
      if (crashAt !== undefined) wire.arm(nth(crashAt), "crash");
      await act(real, model);
      const died = crashAt !== undefined && wire.struck() !== undefined;
      wire.mend();
      if (died) witness.forgetHolds();
      await compare(model, witness, world.clock.now(), died);
      expect(wire.breaches).toEqual([]);
      for (const [url, most] of limits) expect(world.receiver.mostOpen(url)).toBeLessThanOrEqual(most);
    },
  };
}

const held = (seconds: number) => () =>
  new Response(null, { status: 429, headers: { "retry-after": String(seconds) } });
const after4s = (status: number) => (world: World) => () =>
  world.clock.sleep(4_000).then(() => new Response(null, { status }));
const answers: Readonly<Record<string, (world: World) => Script>> = {
  204: () => 204,
  500: () => 500,
  400: () => 400,
  404: () => 404,
  410: () => 410,
  "429 for 40 s": () => held(40),
  "a broken connection": () => new Error("Network connection lost."),
  "204 after 4 s": after4s(204),
  "500 after 4 s": after4s(500),
};

const crash = fc.option(fc.integer({ min: 1, max: 14 }), { nil: undefined, freq: 3 });
const which = fc.nat(1);
const jumps = fc.constantFrom(-2_000, 1_000, 10_000, 30_000, MINUTE, 5 * MINUTE, 20 * MINUTE, 70 * MINUTE);

/** What ends a delivery is said more often. */
export const answerSequence = fc.array(fc.constantFrom(...Object.keys(answers), "204", "204", "400", "400"), {
  minLength: 1,
  maxLength: 6,
  size: "max",
});

/** A step that may crash, about one of the destinations. */
function about(name: string, act: (destination: string, ...of: Parameters<Act>) => Promise<unknown>) {
  return fc
    .tuple(which, crash)
    .map(([i, at]) =>
      step(`${name} ${i}`, (real, model) => act(real.destinations[i] ?? "", real, model), at),
    );
}

function plain(name: string, act: Act): fc.Arbitrary<Step> {
  return crash.map((at) => step(name, act, at));
}

const answer = fc
  .tuple(which, answerSequence)
  .map(([i, names]) => step(`${i} answers ${names.join(", ")}`, async (real) => script(real, i, names)));
const deliver = plain("deliver", ({ platform }) => platform.deliver());
const ring = plain("ring", ({ platform }) => platform.ring());
/** As in production: nothing waits for anything else to be over. */
const allAtOnce = plain("deliver, drain, sweep and post at once", ({ platform }) =>
  Promise.all([platform.deliver(), platform.ring(), platform.cron(), platform.post(2)]),
);
const jump = jumps.map((ms) => step(`jump ${ms / 1000} s`, async ({ platform }) => platform.later(ms)));

/** What is there more than once is drawn more often. */
export const steps: fc.Arbitrary<Step>[] = [
  ...[
    allAtOnce,
    allAtOnce,
    allAtOnce,
    deliver,
    deliver,
    deliver,
    deliver,
    ring,
    ring,
    ring,
    ring,
    jump,
    jump,
    jump,
    jump,
    answer,
    answer,
  ],
  fc
    .tuple(fc.integer({ min: 1, max: 3 }), crash)
    .map(([n, at]) => step(`post ${n}`, ({ platform }) => platform.post(n), at)),
  plain("bring everything again", ({ platform }) => platform.redeliver()),
  plain("sweep", ({ platform }) => platform.cron()),
  about("pause", async (destination, _, { paused }) => {
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", destination);
    paused.add(destination);
  }),
  about("resume", resume),
  about("evict the gate of", evict),
  plain("retry the dead", retryTheDead),
  about("replay the dead of", (destination, real) => begin(real, destination, "dead")),
  about("replay the dead of", (destination, real) => begin(real, destination, "dead")),
  about("replay what was delivered to", (destination, real) => begin(real, destination, "delivered")),
  about("pause the replay of", (destination, { wire }) => turn(wire, destination, "paused")),
  about("resume the replay of", (destination, { wire }) => turn(wire, destination, "running")),
  about("cancel the replay of", (destination, { wire }) => turn(wire, destination, "cancelled")),
  about("delete", async (destination, { world }, { deleted }) => {
    await execute("UPDATE destinations SET deleted_at = ?2 WHERE id = ?1", destination, world.clock.now());
    deleted.add(destination);
  }),
];

/** From now on the destination so numbered answers so, the last for ever. */
export function script({ world, destinations }: Real, i: number, names: readonly string[]): void {
  world.receiver.script(urlOf(destinations[i] ?? ""), ...names.map((name) => answers[name]?.(world) ?? 204));
}

/** What the gate has in memory is gone. Only one that is there can go. */
async function evict(destination: string): Promise<void> {
  const gate = gateOf(destination);
  await gate.destinationState();
  await evictDurableObject(gate);
}

export async function resume(destination: string, { wire }: Real, { paused }: Model): Promise<void> {
  await execute("UPDATE destinations SET status = 'active', status_reason = NULL WHERE id = ?1", destination);
  await wire.invoke("resume", (services) => resumeAtGate(services, destination));
  paused.delete(destination);
}

async function retryTheDead({ wire, world }: Real, { retried }: Model): Promise<void> {
  const giveUpAt = world.clock.now() + GIVE_UP_MS;
  const dead = (await storedRows()).filter(({ state }) => state === "dead");
  for (const row of dead) {
    retried.add(keyOfRow(row));
    await wire.invoke("retry", async (services) => {
      await requeueDead(services, row, giveUpAt).catch(() => {});
      await scheduleDrainAtGate(services, row.destinationId);
    });
  }
}

async function begin({ wire, platform }: Real, destination: string, include: "dead" | "delivered") {
  await wire.invoke("begin replay", (services) => replay(services, destination, include));
  // What ends in the very moment in which a replay begins may be meant or not.
  platform.later(1);
  await platform.ring();
}

/** As a person would turn the replay that is under way for the destination, if there is one. */
export async function turn(
  wire: Wire,
  destination: string,
  to: "paused" | "running" | "cancelled",
): Promise<void> {
  await wire.invoke(`replay ${to}`, async (services) => {
    const { db, now } = services;
    const job = await replayUnderWay(db, destination);
    if (!job || job.state === to) return;
    const change = to === "cancelled" ? { endedAt: now() } : { nextStepAt: now() };
    await changeReplay(db, job.id, [job.state], { state: to, ...change }, now());
    if (to === "running") await enqueueReplayStep(services, job.id, now());
  });
}
