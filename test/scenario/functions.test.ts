/** Functions in development: one that never ends is killed, and affects nothing else on this machine. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFunctionsRuntime } from "../../tools/functions-runtime.ts";
import { type ReceiverServer, startReceiver } from "../../tools/receiver.ts";
import { type ApiClient, apiClient, keepFiring, type Stack, stopStack } from "../../tools/stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "../../tools/throwaway.ts";
import { until } from "./until.ts";

const CODE = `export default ({ data }) => {
  while (data.loops) {}
  return { body: { n: data.n } };
};`;

let api: ApiClient;
let receiver: ReceiverServer;
let output: () => string;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  receiver = await startReceiver(() => ({ status: 204 }));
  const functions = await startFunctionsRuntime();
  const throwaway = await prepareThrowaway(functions.vars, {});
  const stack: Stack = await throwaway.start();
  ends.push(receiver.close, throwaway.discard, functions.close, () => stopStack(stack));
  ends.push(keepFiring(stack.url, { everyMs: 2_000 }));
  ({ output } = throwaway);
  api = apiClient(stack.url, THROWAWAY_KEY);
});

afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

const destination = (path: string, code = CODE, type = "*") =>
  api.post<{ id: string }>("/v1/destinations", {
    url: `${receiver.url}${path}`,
    event_types: [type],
    transform: { code },
  });
const post = (type: string, data: object) => api.post<{ id: string }>("/v1/events", { type, data });
const bodies = (path: string) => receiver.hits.flatMap((hit) => (hit.path === path ? [hit.body] : []));

async function arrived(path: string, count: number): Promise<void> {
  await until(() => bodies(path).length >= count, { otherwise: output });
}

test("an endless loop is ended after a second: its delivery waits, and a neighbour's events continue", async () => {
  const { id } = await destination("/looping", CODE, "order.*");
  await destination("/neighbour", `${CODE}\n// another process`);
  await post("order.paid", { n: 1, loops: true });
  const path = `/v1/deliveries?destination_id=${id}`;
  const delivery = async () => (await api.get<{ data: Record<string, unknown>[] }>(path)).data[0];
  await until(async () => (await delivery())?.state === "waiting", { otherwise: output });
  const shown = await api.get<Record<string, unknown>>(`/v1/deliveries/${(await delivery())?.id}`);
  expect(shown).toMatchObject({
    reason: "transform_failed",
    attempts: 0,
    transform_fault: expect.stringContaining("takes longer than 1000 ms"),
  });
  await post("user.added", { n: 2 });
  await arrived("/neighbour", 1);
  // The process of the function runs again.
  await post("order.paid", { n: 3 });
  await arrived("/looping", 1);
  expect(bodies("/looping")).toEqual(['{"n":3}']);
});

test("a module that never finishes loading is refused", async () => {
  await expect(destination("/never", "for (;;);\nexport default () => null;")).rejects.toThrow(
    /422.*takes longer than 1000 ms/,
  );
  await expect(
    destination(
      "/memory",
      "const a = []; for (;;) a.push(new Array(1e6).fill(Math.random()));\nexport default () => null;",
    ),
  ).rejects.toThrow(/422.*memory/);
  await api.get("/v1/health");
});
