/** The runner of tenants' functions: which isolates it requests, and how many at once. */
import { afterEach, expect, test, vi } from "vitest";
import type { FunctionCall } from "../../src/core/transform/code.ts";
import { type FunctionLoader, FunctionRunner } from "../../src/gate/functions-object.ts";
import { calm } from "../support/world.ts";

afterEach(() => void vi.restoreAllMocks());

type Asked = Readonly<{ name: string; made: WorkerLoaderWorkerCode }>;

/** A runner whose functions give the configured answers, with all of its requests. */
function runnerOf(answer: () => Promise<string> | string = () => '{"made":{}}') {
  const asked: Asked[] = [];
  const state = { inFlight: 0, most: 0 };
  const loader: FunctionLoader = {
    get: (name, make) => ({
      getEntrypoint: () => ({
        fetch: async () => {
          asked.push({ name, made: make() });
          state.inFlight += 1;
          state.most = Math.max(state.most, state.inFlight);
          const text = await answer();
          state.inFlight -= 1;
          return new Response(text);
        },
      }),
    }),
  };
  return { runner: new FunctionRunner(loader), asked, state };
}

const call = (changes: Partial<FunctionCall> = {}): FunctionCall => ({
  tenant: "acme",
  code: "export default () => null",
  events: ["{}"],
  ...changes,
});
const many = (count: number) => Array.from({ length: count }, () => "{}");

test("an isolate is for one tenant and one text, has neither bindings nor network, and limited CPU", async () => {
  const { runner, asked } = runnerOf();
  for (const one of [call(), call({ tenant: "beta" }), call({ code: "export default () => 1" }), call()])
    await runner.run(one);
  const [first, ...others] = asked.map(({ name }) => name);
  expect(new Set(asked.map(({ name }) => name)).size).toBe(3);
  expect(others.at(-1)).toBe(first);
  const { env, globalOutbound, limits } = asked[0]?.made ?? {};
  expect([env, globalOutbound, limits]).toEqual([{}, null, { cpuMs: 200, subRequests: 0 }]);
});

test("two calls of a batch run at once, and eight of a tenant, so that a destination's hanging function leaves others a turn", async () => {
  const over = Promise.withResolvers<string>();
  const { runner, state } = runnerOf(() => over.promise);
  const batches = [runner.run(call({ events: many(10) }))];
  await calm();
  expect(state.inFlight).toBe(2);
  batches.push(...many(9).map((_, i) => runner.run(call({ code: `${i}`, events: many(3) }))));
  await calm();
  expect(state.inFlight).toBe(8);
  over.resolve('{"made":{}}');
  const outcomes = (await Promise.all(batches)).flat();
  expect(outcomes.map(({ kind }) => kind)).toEqual(Array(37).fill("made"));
  expect(state.most).toBe(8);
});

test.each([
  ["two seconds", () => vi.spyOn(Date, "now").mockReturnValue(Date.now() + 2_001), "{}", 2],
  ["eight million characters", () => {}, `{"body":${JSON.stringify("1".repeat(850_000))}}`, 11],
])("a batch begins no call after %s: the rest has not run", async (_what, answered, made, most) => {
  const { runner, asked } = runnerOf(() => {
    answered();
    return `{"made":${made}}`;
  });
  const outcomes = await runner.run(call({ events: many(20) }));
  expect(asked.length).toBeLessThanOrEqual(most);
  expect(outcomes.filter(({ kind }) => kind === "made")).toHaveLength(asked.length);
  expect(outcomes.at(-1)).toMatchObject({
    kind: "unavailable",
    fault: { fault: expect.stringMatching("has not run yet") },
  });
});
