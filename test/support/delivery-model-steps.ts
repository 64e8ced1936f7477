/** The steps of a random history: what customers, receivers, operators, the platform and the clock do. */
import { evictDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { expect } from "vitest";
import { replaying } from "../../src/features/replays/job.ts";
import { atGate } from "../../src/gate/client.ts";
import { changeReplay, replayUnderWay } from "../../src/store/replays.ts";
import { compare, GIVE_UP_MS, type Model } from "./delivery-model.ts";
import { type FaultyRuntime, nth } from "./faulty-runtime.ts";
import { type Platform, replay } from "./platform.ts";
import type { Script } from "./receivers.ts";
import { keyOf, type RequestLog } from "./request-log.ts";
import { requeueOne } from "./requeue.ts";
import { execute, gateOf, storedRows, urlOf, type World } from "./world.ts";

const MINUTE = 60_000;

export const modelDestinations = [
  { id: "dst_model0", maxConcurrency: 1 },
  { id: "dst_model1", maxConcurrency: 10 },
] as const;

export type Real = Readonly<{
  world: World;
  runtime: FaultyRuntime;
  requestLog: RequestLog;
  platform: Platform;
  destinations: readonly string[];
}>;

export type Step = fc.AsyncCommand<Model, Real>;

/** The most requests at once, by URL. */
const limits: readonly (readonly [url: string, most: number])[] = modelDestinations.map(
  ({ id, maxConcurrency }) => [urlOf(id), maxConcurrency],
);

type Act = (real: Real, model: Model) => Promise<unknown>;

function step(name: string, act: Act, crashAt?: number): Step {
  return {
    check: () => true,
    toString: () => (crashAt === undefined ? name : `${name}, crashing at call ${crashAt}`),
    async run(model, real) {
      const { runtime, requestLog, world } = real;
      if (crashAt !== undefined) runtime.failNext(nth(crashAt), "crash");
      await act(real, model);
      const died = crashAt !== undefined && runtime.failedCall() !== undefined;
      runtime.stopFailing();
      if (died) requestLog.forgetHolds();
      await compare(model, requestLog, world.clock.now(), died);
      expect(runtime.breaches).toEqual([]);
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
  "a lost connection": () => new Error("Network connection lost."),
  "204 after 4 s": after4s(204),
  "500 after 4 s": after4s(500),
};

const crash = fc.option(fc.integer({ min: 1, max: 14 }), { nil: undefined, freq: 3 });
const which = fc.nat(1);
const jumps = fc.constantFrom(-2_000, 1_000, 10_000, 30_000, MINUTE, 5 * MINUTE, 20 * MINUTE, 70 * MINUTE);

/** Sequences of answers, in which answers that end a delivery are more frequent. */
export const answerSequence = fc.array(fc.constantFrom(...Object.keys(answers), "204", "204", "400", "400"), {
  minLength: 1,
  maxLength: 6,
  size: "max",
});

/** A step that may crash, for one of the destinations. */
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
const drain = plain("drain", ({ platform }) => platform.drain());
/** As in production, where nothing waits for anything else to finish. */
const allAtOnce = plain("deliver, drain, sweep and post at once", ({ platform }) =>
  Promise.all([platform.deliver(), platform.drain(), platform.cron(), platform.post(2)]),
);
const jump = jumps.map((ms) => step(`jump ${ms / 1000} s`, async ({ platform }) => platform.later(ms)));

/** Steps that are listed more than once are drawn more often. */
export const steps: fc.Arbitrary<Step>[] = [
  ...[
    allAtOnce,
    allAtOnce,
    allAtOnce,
    deliver,
    deliver,
    deliver,
    deliver,
    drain,
    drain,
    drain,
    drain,
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
  plain("redeliver everything", ({ platform }) => platform.redeliver()),
  plain("sweep", ({ platform }) => platform.cron()),
  about("pause", async (destination, _, { paused }) => {
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", destination);
    paused.add(destination);
  }),
  about("resume", resume),
  about("evict the gate of", evict),
  plain("send again what has ended", sendAgain),
  about("replay the dead of", (destination, real) => begin(real, destination, "dead")),
  about("replay the dead of", (destination, real) => begin(real, destination, "dead")),
  about("replay what was delivered to", (destination, real) => begin(real, destination, "delivered")),
  about("pause the replay of", (destination, { runtime }) => turn(runtime, destination, "paused")),
  about("resume the replay of", (destination, { runtime }) => turn(runtime, destination, "running")),
  about("cancel the replay of", (destination, { runtime }) => turn(runtime, destination, "cancelled")),
  about("delete", async (destination, { world }, { deleted }) => {
    await execute("UPDATE destinations SET deleted_at = ?2 WHERE id = ?1", destination, world.clock.now());
    deleted.add(destination);
  }),
];

/** Sets the destination's answers from now on; the last one is repeated. */
export function script({ world, destinations }: Real, i: number, names: readonly string[]): void {
  world.receiver.script(urlOf(destinations[i] ?? ""), ...names.map((name) => answers[name]?.(world) ?? 204));
}

/** Evicts the gate, which then loses its memory. It must be in memory first. */
async function evict(destination: string): Promise<void> {
  const gate = gateOf(destination);
  await gate.destinationState();
  await evictDurableObject(gate);
}

/**
 * Resumes a destination as an operator does who wants it tried at once: its gate ends the hold that the receiver
 * requested.
 */
export async function resume(
  destination: string,
  { runtime, requestLog }: Real,
  { paused }: Model,
): Promise<void> {
  await execute("UPDATE destinations SET status = 'active', status_reason = NULL WHERE id = ?1", destination);
  await runtime.invoke("resume", (services) => atGate(services, destination, "resume"));
  requestLog.forgetHoldOf(destination);
  paused.delete(destination);
}

async function sendAgain({ runtime, world }: Real, { retried }: Model): Promise<void> {
  const giveUpAt = world.clock.now() + GIVE_UP_MS;
  const ended = (await storedRows()).filter(({ state }) => state === "dead" || state === "delivered");
  for (const row of ended) {
    retried.add(keyOf(row));
    await runtime.invoke("retry", async (services) => {
      await requeueOne(services, row, giveUpAt).catch(() => {});
      await atGate(services, row.destinationId, "scheduleDrain");
    });
  }
}

async function begin({ runtime, platform }: Real, destination: string, include: "dead" | "delivered") {
  await runtime.invoke("begin replay", (services) => replay(services, destination, include));
  // Deliveries that end in the same millisecond may be covered or not.
  platform.later(1);
  await platform.drain();
}

/** Changes the state of the destination's running or paused replay, if there is one, as an operator would. */
export async function turn(
  runtime: FaultyRuntime,
  destination: string,
  to: "paused" | "running" | "cancelled",
): Promise<void> {
  await runtime.invoke(`replay ${to}`, async (services) => {
    const { db, now } = services;
    const job = await replayUnderWay(db, destination);
    if (!job || job.state === to) return;
    const change = to === "cancelled" ? { endedAt: now() } : { nextStepAt: now() };
    await changeReplay(db, job.id, [job.state], { state: to, ...change }, now());
    if (to === "running") await replaying.enqueue(services, job.id, now());
  });
}
