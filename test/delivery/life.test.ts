/**
 * Whatever happens, in whatever order: posts, answers of every kind, messages that come twice, crashes,
 * evicted gates, pauses, deletions, retries by hand, and a clock that jumps. After each step every delivery
 * is as the model on the napkin has it; at the end, when everything works again, every one of them ends.
 */
import { evictDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { expect, test } from "vitest";
import { resumeGate, ringGate } from "../../src/gate/gate-client.ts";
import { retryDead } from "../../src/store/reopen.ts";
import type { DeliveryRow } from "../../src/store/work.ts";
import { attempted, ended, isLived, type Life, unborn } from "../support/napkin.ts";
import { heal, type Platform, planned, platformOf } from "../support/platform.ts";
import type { Script } from "../support/receivers.ts";
import { nth, type Wire, wireOf } from "../support/wire.ts";
import { keyOf, keyOfRow, type Witness, witnessOf } from "../support/witness.ts";
import {
  execute,
  gateOf,
  newDestination,
  newGates,
  newWorld,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

const RUNS = 40;
const STEPS = 25;
const MINUTE = 60_000;
const GIVE_UP_MS = 120 * MINUTE;
const retry = { schedule: [30, 60], max_attempts: 3, give_up_after: GIVE_UP_MS / 1000 };
/** The longest wait of the schedule, and what a hold may add to it. */
const LONGEST_WAIT_MS = 5 * MINUTE;

type Real = Readonly<{
  world: World;
  wire: Wire;
  witness: Witness;
  platform: Platform;
  destinations: readonly string[];
}>;

/** What may have become of each delivery, and what has been looked at so far. */
type Model = {
  readonly lives: Map<string, { may: readonly Life[]; giveUpAt: number }>;
  readonly paused: Set<string>;
  readonly deleted: Set<string>;
  seen: number;
};

type Step = fc.AsyncCommand<Model, Real>;

function step(name: string, act: (real: Real, model: Model) => Promise<unknown>, crashAt?: number): Step {
  return {
    check: () => true,
    toString: () => (crashAt === undefined ? name : `${name}, crashing at call ${crashAt}`),
    async run(model, real) {
      if (crashAt !== undefined) real.wire.arm(nth(crashAt), "crash");
      await act(real, model);
      const died = crashAt !== undefined && real.wire.struck() !== undefined;
      real.wire.mend();
      await compare(model, real, died);
    },
  };
}

/** Lives on what was sent since, and holds it to the rows. */
async function compare(model: Model, { world, witness }: Real, died: boolean): Promise<void> {
  const now = world.clock.now();
  const rows = new Map((await storedRows()).map((row) => [keyOfRow(row), row]));
  for (const message of await planned()) {
    const key = keyOf(message);
    if (!model.lives.has(key))
      model.lives.set(key, { may: [unborn], giveUpAt: message.acceptedAt + GIVE_UP_MS });
  }
  for (const sent of witness.sent.slice(model.seen)) {
    const [, destination = ""] = sent.key.split(" ");
    expect(model.paused, `${sent.key} was sent while paused`).not.toContain(destination);
    const life = model.lives.get(sent.key) ?? { may: [], giveUpAt: 0 };
    const late = now + LONGEST_WAIT_MS >= life.giveUpAt ? [true, false] : [false];
    const next = late.flatMap((isLate) => life.may.map((one) => attempted(one, sent, isLate)));
    model.lives.set(sent.key, { ...life, may: died ? [...next, ...life.may] : next });
  }
  model.seen = witness.sent.length;
  expect(witness.afterEnd).toEqual([]);
  for (const [key, { may, giveUpAt }] of model.lives) {
    const old = now >= giveUpAt ? may.map((life) => ended(life, "dead")) : [];
    const gone = model.deleted.has(key.split(" ")[1] ?? "")
      ? may.map((life) => ended(life, "cancelled"))
      : [];
    const all = [...may, ...old, ...gone];
    const lived = all.filter((life) => isLived(life, rows.get(key)));
    if (lived.length === 0)
      throw new Error(`${key} is ${told(rows.get(key))}, and not ${JSON.stringify(all)}`);
    model.lives.set(key, { may: lived.slice(0, 1), giveUpAt });
  }
}

function told(row: DeliveryRow | undefined): string {
  return row ? `${row.state} (${row.because}) after ${row.attempts} attempts` : "without a row";
}

const held = (seconds: number) => () =>
  new Response(null, { status: 429, headers: { "retry-after": String(seconds) } });
const answers: Readonly<Record<string, (world: World) => Script>> = {
  204: () => 204,
  500: () => 500,
  400: () => 400,
  404: () => 404,
  410: () => 410,
  "429 for 40 s": () => held(40),
  "a broken connection": () => new Error("Network connection lost."),
  "204 after 4 s": (world) => () => world.clock.sleep(4_000).then(() => new Response(null, { status: 204 })),
  "500 after 4 s": (world) => () => world.clock.sleep(4_000).then(() => new Response(null, { status: 500 })),
};

const crash = fc.option(fc.integer({ min: 1, max: 14 }), { nil: undefined, freq: 3 });
const which = fc.nat(1);
const jumps = fc.constantFrom(-2_000, 1_000, 10_000, 30_000, MINUTE, 5 * MINUTE, 20 * MINUTE, 70 * MINUTE);

const said = fc.array(fc.constantFrom(...Object.keys(answers)), { minLength: 1, maxLength: 6, size: "max" });
const answer = fc
  .tuple(which, said)
  .map(([i, names]) => step(`${i} answers ${names.join(", ")}`, async (real) => script(real, i, names)));
const deliver = crash.map((at) => step("deliver", ({ platform }) => platform.deliver(), at));
const ring = crash.map((at) => step("ring", ({ platform }) => platform.ring(), at));
const jump = jumps.map((ms) => step(`jump ${ms / 1000} s`, async ({ platform }) => platform.later(ms)));

/** What is there more than once is drawn more often. */
const steps: fc.Arbitrary<Step>[] = [
  ...[deliver, deliver, deliver, deliver, ring, ring, ring, jump, jump, jump, jump, answer, answer],
  fc
    .tuple(fc.integer({ min: 1, max: 3 }), crash)
    .map(([n, at]) => step(`post ${n}`, ({ platform }) => platform.post(n), at)),
  crash.map((at) => step("bring everything again", ({ platform }) => platform.redeliver(), at)),
  crash.map((at) => step("sweep", ({ platform }) => platform.cron(), at)),
  which.map((i) =>
    step(`pause ${i}`, async ({ destinations }, { paused }) => {
      await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", destinations[i]);
      paused.add(destinations[i] ?? "");
    }),
  ),
  which.map((i) => step(`resume ${i}`, (real, model) => resume(real, model, real.destinations[i] ?? ""))),
  which.map((i) => step(`evict gate ${i}`, ({ destinations }) => evict(destinations[i] ?? ""))),
  fc.constant(step("retry the dead", retryTheDead)),
  which.map((i) =>
    step(`delete ${i}`, async ({ destinations }, { deleted }) => {
      await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", destinations[i]);
      deleted.add(destinations[i] ?? "");
    }),
  ),
];

/** From now on the destination so numbered answers so, the last for ever. */
function script({ world, destinations }: Real, i: number, names: readonly string[]): void {
  world.receiver.script(urlOf(destinations[i] ?? ""), ...names.map((name) => answers[name]?.(world) ?? 204));
}

/** What the gate has in memory is gone. Only one that is there can go. */
async function evict(destination: string): Promise<void> {
  const gate = gateOf(destination);
  await gate.condition();
  await evictDurableObject(gate);
}

async function resume({ wire }: Real, { paused }: Model, destination: string): Promise<void> {
  await execute("UPDATE destinations SET status = 'active', status_reason = NULL WHERE id = ?1", destination);
  await wire.invoke("resume", (services) => resumeGate(services, destination));
  paused.delete(destination);
}

async function retryTheDead({ wire, world }: Real, { lives }: Model): Promise<void> {
  const giveUpAt = world.clock.now() + GIVE_UP_MS;
  for (const row of await storedRows()) {
    if (row.state !== "dead") continue;
    await wire.invoke("retry", async (services) => {
      await retryDead(services.db, row, giveUpAt);
      await ringGate(services, row.destinationId);
    });
    lives.set(keyOfRow(row), { may: [unborn], giveUpAt: Math.max(giveUpAt, row.giveUpAt + 1) });
  }
}

const destinations = ["dst_life0", "dst_life1"];

/** A new world with two events under way for every run, so that a shorter history begins where the longer one did. */
async function begin(): Promise<{ model: Model; real: Real }> {
  const world = await newWorld();
  const witness = witnessOf(world.services);
  const wire = wireOf({ ...world, services: witness.services });
  for (const id of destinations) await newDestination({ id, retry });
  await newGates(destinations);
  const platform = platformOf(world, wire, destinations);
  await platform.post(2);
  const model = { lives: new Map(), paused: new Set<string>(), deleted: new Set<string>(), seen: 0 };
  return { model, real: { world, witness, wire, destinations, platform } };
}

async function endWell({ model, real }: Awaited<ReturnType<typeof begin>>): Promise<void> {
  for (const destination of real.destinations) {
    real.world.receiver.script(urlOf(destination), 204);
    await resume(real, model, destination);
  }
  await heal(real.platform);
  await compare(model, real, false);
  const open = [...model.lives]
    .filter(
      ([
        ,
        {
          may: [life],
        },
      ]) => life?.end === undefined,
    )
    .map(([key]) => key);
  expect(open, "deliveries that have not ended").toEqual([]);
}

test("a delivery lives as the model has it, whatever happens to it", async () => {
  await fc.assert(
    fc.asyncProperty(
      said,
      said,
      fc.commands(steps, { maxCommands: STEPS, size: "max" }),
      async (first, second, commands) => {
        const place = await begin();
        script(place.real, 0, first);
        script(place.real, 1, second);
        await fc.asyncModelRun(() => place, commands);
        await endWell(place);
      },
    ),
    { numRuns: RUNS, seed: 7 },
  );
}, 300_000);
