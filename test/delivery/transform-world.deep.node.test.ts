/** Transformations that are changed while events are delivered: several isolates, calls that take time and fail, late messages. */
import { describe, expect, test } from "vitest";
import { type FunctionCall, type FunctionOutcome, functionStopped } from "../../src/core/transform/code.ts";
import type { TransformTemplate } from "../../src/core/transform/template.ts";
import type { Services } from "../../src/services.ts";
import { changeDestination } from "../../src/store/destinations.ts";
import { TENANT, virtualWorld } from "../support/virtual-world.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const by = { kind: "admin_key", key: null, session: null } as const;
const saved = (template: TransformTemplate | null, at = 0) => ({ version: 1, after: -1, at, by, template });
/** Says which version made it; it fails for events without a number. */
const numbered = (version: number) => saved({ body: `{"v": ${version}, "n": {{ data.n }}}` });

/** Events of two minutes, to a destination that fails now and then and whose template is saved every 15 seconds. */
async function changing(seed: number) {
  const world = virtualWorld({ seed, isDeadly: () => seed > 1 && world.engine.random() < 0.01 });
  const retry = { schedule: [5, 20, 60, 60, 60], max_attempts: 6 };
  const [shop, plain] = [world.destination({ transform: numbered(0), retry }), world.destination({ retry })];
  const faulty = () => (world.engine.random() < 0.3 ? 500 : 204);
  world.script(shop, faulty);
  world.script(plain, faulty);
  world.trouble({ failing: 0.01, unanswered: 0.01, crashing: 0.005 });
  for (let version = 1; version <= 8; version++) {
    const save = () =>
      world.invoke("save", ({ db }) => changeDestination(db, shop, { transform: numbered(version) }, TENANT));
    world.after(version * 15 * SECOND, () => void save());
  }
  world.postSteadily(2, 2 * MINUTE, { data: { n: 7 } });
  await world.run(2 * MINUTE);
  world.trouble();
  await world.runUntil(() => world.open() === 0, 60 * MINUTE);
  return { world, shop, plain };
}

describe.each([1, 2])("while versions are saved (seed %i)", (seed) => {
  test("an event has the same bytes on every attempt, and a later event no earlier version", async () => {
    const { world, shop, plain } = await changing(seed);
    expect(world.broken()).toEqual([]);
    const attempts = Map.groupBy(world.requestsTo(shop), ({ event }) => event);
    const bodies = [...attempts].map(
      ([event, made]) => [event, [...new Set(made.map(({ body }) => body))]] as const,
    );
    expect(bodies.filter(([, each]) => each.length > 1)).toEqual([]);
    const versions = bodies
      .toSorted(([a], [b]) => a - b)
      .map(([, [body = ""]]) => (JSON.parse(body) as { v: number }).v);
    expect(versions).toEqual(versions.toSorted((a, b) => a - b));
    // The history covers its subject: most versions, and attempts before and after a save.
    expect(new Set(versions).size).toBeGreaterThan(5);
    const isSpread = [...attempts.values()].some(
      (made) => (made.at(-1)?.at ?? 0) - (made[0]?.at ?? 0) > 20 * SECOND,
    );
    expect(isSpread).toBe(true);
    expect(world.requestsTo(plain).every(({ body }) => body.includes('"type":"order.paid"'))).toBe(true);
  });
});

const MANY = Array.from({ length: 200 }, (_, i) => i);
const EVENTS = 100;

/** Posts to two destinations, of which the first has the template. */
async function beside(template: TransformTemplate) {
  const world = virtualWorld({ seed: 5 });
  const [shop, neighbour] = [world.destination({ transform: saved(template) }), world.destination()];
  world.postSteadily(5, (EVENTS / 5) * SECOND, { data: { text: "no json", many: MANY } });
  await world.run(2 * MINUTE);
  const delays = world
    .requestsTo(neighbour)
    .map(({ at, body }) => at - Date.parse(JSON.parse(body).timestamp));
  return { world, shop, delays: delays.toSorted((a, b) => a - b) };
}

test.each([
  ["comes out as no JSON", '{"a": {{ data.text }} }'],
  [
    "never ends within its steps",
    "{% for a in data.many %}{% for b in data.many %}{{ b }}{% endfor %}{% endfor %}",
  ],
])("a template that %s uses up no attempt, opens no circuit, pauses its destination and delays no neighbour", async (_, body) => {
  const sound = await beside({ body: '{"a": 1}' });
  const { world, shop, delays } = await beside({ body });
  expect(world.broken()).toEqual([]);
  expect(world.requestsTo(shop)).toEqual([]);
  const rows = world.rows(shop);
  expect(rows).toHaveLength(EVENTS);
  expect(rows.every(({ state, attempts }) => state === "waiting" && attempts === 0)).toBe(true);
  expect(world.gate(shop)?.destinationState.circuit.kind ?? "closed").toBe("closed");
  expect(world.sql("SELECT status, status_reason AS reason FROM destinations WHERE id = ?1", shop)).toEqual([
    { status: "paused", reason: "transform_failing" },
  ]);
  // Every event reaches the neighbour, and half of them as soon as beside a template that works.
  expect([delays.length, sound.delays.length]).toEqual([EVENTS, EVENTS]);
  const median = ({ delays }: Pick<typeof sound, "delays">) => delays[EVENTS / 2] ?? 0;
  expect(median({ delays })).toBeLessThanOrEqual(1.1 * median(sound));
});

type Answer = (call: FunctionCall, services: Services) => Promise<FunctionOutcome[]>;

/** The functions of every invocation, with these answers. */
const withFunctions = (answer: Answer) => (services: Services) => {
  const run = (call: FunctionCall) => answer(call, services);
  const functions = { idFromName: (name: string) => name, get: () => ({ run }) };
  return { ...services, functions: functions as unknown as Services["functions"] };
};

const coded = (code: string) => ({ version: 1, after: -1, at: 0, by, code });

test.each([
  1, 2, 3,
])("code with a different result each time sends the same bytes on every attempt, through kills, late answers and saved versions (seed %i)", async (seed) => {
  let runs = 0;
  const world = virtualWorld({
    seed,
    isDeadly: () => seed > 1 && world.engine.random() < 0.02,
    wrap: withFunctions(async ({ code, events }, { sleep, random }) => {
      await sleep(5 + 300 * random());
      if (random() < 0.1) throw new Error("Network connection lost.");
      return events.map(() => {
        runs += 1;
        return random() < 0.05
          ? functionStopped("takes longer than 1000 ms")
          : { kind: "made", made: { body: JSON.stringify({ code, runs }) } };
      });
    }),
  });
  const retry = { schedule: [5, 20, 60, 60, 60], max_attempts: 6 };
  const shop = world.destination({ transform: coded("0"), retry });
  world.script(shop, () => (world.engine.random() < 0.4 ? 500 : 204));
  world.trouble({ failing: 0.01, unanswered: 0.01, crashing: 0.01 });
  for (let version = 1; version <= 4; version++) {
    const save = () =>
      world.invoke("save", ({ db }) =>
        changeDestination(db, shop, { transform: coded(`${version}`) }, TENANT),
      );
    world.after(version * 20 * SECOND, () => void save());
  }
  world.postSteadily(2, 2 * MINUTE);
  await world.run(2 * MINUTE);
  world.trouble();
  await world.runUntil(() => world.open() === 0, 60 * MINUTE);
  expect(world.broken()).toEqual([]);
  expect(world.open()).toBe(0);
  const attempts = Map.groupBy(world.requestsTo(shop), ({ event }) => event);
  const bodies = [...attempts.values()].map((made) => new Set(made.map(({ body }) => body)).size);
  expect(bodies.filter((different) => different > 1)).toEqual([]);
  expect([...attempts.values()].some((made) => made.length > 2)).toBe(true);
});

test("a function that never answers in time pauses its destination, uses up no attempt and delays no neighbour", async () => {
  const beside = async (answer: Answer) => {
    const world = virtualWorld({ seed: 5, wrap: withFunctions(answer) });
    const [shop, neighbour] = [world.destination({ transform: coded("0") }), world.destination()];
    world.postSteadily(5, (EVENTS / 5) * SECOND);
    await world.run(2 * MINUTE);
    const requests = world.requestsTo(neighbour);
    const delays = requests.map(({ at, body }) => at - Date.parse(JSON.parse(body).timestamp));
    expect(delays).toHaveLength(EVENTS);
    return { world, shop, median: delays.toSorted((a, b) => a - b)[EVENTS / 2] ?? 0 };
  };
  const sound = await beside(async ({ events }) => events.map(() => ({ kind: "made", made: { body: "1" } })));
  const { world, shop, median } = await beside(async ({ events }, { sleep }) => {
    await sleep(2 * SECOND);
    return events.map(() => functionStopped("takes longer than 1000 ms"));
  });
  expect(world.broken()).toEqual([]);
  expect(world.requestsTo(shop)).toEqual([]);
  expect(world.rows(shop).every(({ attempts }) => attempts === 0)).toBe(true);
  expect(world.sql("SELECT status_reason AS reason FROM destinations WHERE id = ?1", shop)).toEqual([
    { reason: "transform_failing" },
  ]);
  expect(median).toBeLessThanOrEqual(1.1 * sound.median);
});
