/**
 * The services that sending to receivers needs, without a Worker: fake receivers, a standing clock, the real vault, and
 * gates that only store access tokens.
 */
import type { Config } from "../../src/config.ts";
import { AccessTokens } from "../../src/gate/access-tokens.ts";
import type { LogLine } from "../../src/log.ts";
import { newMemory } from "../../src/memory.ts";
import type { Services } from "../../src/services.ts";
import { queueBinding, serviceBinding } from "./bindings.ts";
import { standingClock } from "./clock.ts";
import { testConfig } from "./config.ts";
import { receivers } from "./receivers.ts";
import { vault } from "./vault.ts";

export type Sending = ReturnType<typeof newSending>;

export function newSending(config: Partial<Config> = {}) {
  const clock = standingClock();
  const receiver = receivers();
  const log: LogLine[] = [];
  const gates = tokenGates();
  const services = {
    config: testConfig(config),
    vault,
    memory: newMemory(),
    gates: gates.namespace,
    fetch: receiver.fetch,
    now: clock.now,
    random: () => 0.5,
    sleep: clock.sleep,
    log: (line: LogLine) => void log.push(line),
  } as unknown as Services;
  return { services, clock, receiver, gates, log };
}

/** With a queue `ORDERS` and a service `BILLING_2`, which the tenant acme may use. */
export function sendingThroughBindings(): Sending {
  const sending = newSending();
  const destinationBindings = new Map([
    ["ORDERS", queueBinding(sending.receiver, "ORDERS", ["acme"])],
    ["BILLING_2", serviceBinding(sending.receiver, ["acme"])],
  ]);
  Object.assign(sending.services, { destinationBindings });
  return sending;
}

/** Gates by destination, which throw while they are away. */
function tokenGates() {
  const all = new Map<string, AccessTokens>();
  const requests: object[] = [];
  let isAway = false;

  function gateOf(destination: string): AccessTokens {
    if (isAway) throw new Error("The gate is away");
    const gate = all.get(destination) ?? new AccessTokens(storage());
    all.set(destination, gate);
    return gate;
  }

  const namespace = {
    idFromName: (name: string) => name,
    get: (name: string) => ({
      accessToken: async (request: Parameters<AccessTokens["request"]>[0]) => {
        requests.push(request);
        return gateOf(name).request(request);
      },
      keepAccessToken: async (...fetched: Parameters<AccessTokens["keep"]>) => gateOf(name).keep(...fetched),
    }),
  };
  return {
    namespace,
    /** The requests to gates, in order. */
    requests,
    away: (is: boolean) => {
      isAway = is;
    },
  };
}

/** The storage of one gate. */
export function storage(): DurableObjectStorage {
  const stored = new Map<string, unknown>();
  const kv = {
    get: (key: string) => stored.get(key),
    put: (key: string, value: unknown) => stored.set(key, value),
  };
  return { kv } as unknown as DurableObjectStorage;
}
