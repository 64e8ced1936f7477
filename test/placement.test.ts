/** Where the deployment's Durable Objects are: the local runtime has no jurisdictions, so these namespaces record. */
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { atGate } from "../src/gate/client.ts";
import { atGroup } from "../src/gate/group-client.ts";
import { servicesOf } from "../src/services.ts";

/** A namespace whose objects do nothing, and its calls. */
function recordingNamespace(calls: unknown[], within = "anywhere") {
  return {
    jurisdiction: (name: string) => recordingNamespace(calls, name),
    idFromName: (name: string) => name,
    get: (id: string, options?: object) => {
      calls.push([within, id, options]);
      return { scheduleDrain: async () => {}, standing: async () => undefined };
    },
  };
}

async function callGate(variables: object) {
  const calls: unknown[] = [];
  const objects = {
    GATES: recordingNamespace(calls),
    INTAKE: recordingNamespace(calls),
    GROUPS: recordingNamespace(calls),
    FUNCTIONS: recordingNamespace(calls),
  };
  const services = servicesOf({ ...env, ...objects, ...variables } as unknown as Env, {
    waitUntil: () => {},
  });
  await atGate(services, "dst_1", "scheduleDrain");
  services.intake?.get(services.intake.idFromName("0.0"));
  await atGroup(services, "shared", "standing");
  return calls;
}

test("gates, groups and intake are near their first caller when nothing is configured", async () => {
  expect(await callGate({})).toEqual([
    ["anywhere", "dst_1", undefined],
    ["anywhere", "0.0", undefined],
    ["anywhere", "shared", undefined],
  ]);
});

test("gates, groups and intake are in the deployment's jurisdiction", async () => {
  expect(await callGate({ JURISDICTION: "eu" })).toEqual([
    ["eu", "dst_1", undefined],
    ["eu", "0.0", undefined],
    ["eu", "shared", undefined],
  ]);
});

test("gates are created in the configured place", async () => {
  const [gate] = await callGate({ GATE_LOCATION: "weur" });
  expect(gate).toEqual(["anywhere", "dst_1", { locationHint: "weur" }]);
});
