/** A world with event types, an MCP server over its services, and a host whose responses a test sets. */
import { env } from "cloudflare:workers";
import type { Principal } from "../../src/core/principal.ts";
import { scopes } from "../../src/core/scopes.ts";
import { putEventType } from "../../src/store/event-types.ts";
import { agentWith } from "./agent.ts";
import type { Call } from "./receivers.ts";
import { newWorld, TENANT } from "./world.ts";

/** Receivers are below this URL. */
export const HOOKS = "https://agents.example/hooks/";

export const KEY_OF_AGENT = "key_0123456789abcdefghjk";
const agentPrincipal: Principal = { scopes, tenant: TENANT, key: KEY_OF_AGENT };

const paid = {
  type: "object",
  properties: { amount: { type: "number" }, customer: { type: "string" } },
  required: ["amount"],
};

export type EventsWorld = Awaited<ReturnType<typeof newEventsWorld>>;

export async function newEventsWorld(principal: Principal = agentPrincipal) {
  const world = await newWorld();
  const shown = { example: null, validates: false, archived: false, retentionDays: null };
  for (const [name, schema] of [["order.paid", paid] as const, ["order.noted", null] as const])
    await putEventType(
      env.DB,
      { name, description: `About ${name}.`, schema: schema && JSON.stringify(schema), ...shown },
      world.clock.now(),
    );
  const handlers = new Map<string, (call: Call) => Response | Promise<Response>>();
  const others = world.receiver.fetch;
  const fetch = (async (input: string, init: RequestInit) => {
    const [path = ""] = String(input).split("?");
    const handler = handlers.get(path);
    if (handler) world.receiver.script(String(input), handler);
    return others(input, init);
  }) as typeof globalThis.fetch;
  // The limit counts across tests; a test about it sets its own.
  Object.assign(world.services, { fetch, challengeLimit: undefined });
  const agentOf = (other: Principal) => agentWith({ principal: other, services: world.services });

  /** Posts an event of the tenant, and makes its deliveries. */
  async function happen(data: unknown, type = "order.paid"): Promise<void> {
    await world.consume(await world.post(1, { type, data }));
    await world.settled();
  }

  /** Runs steps and drains of replays while time passes, until nothing is left to do. */
  async function caughtUp(destination: string): Promise<void> {
    for (let i = 0; i < 50; i++) {
      await world.settled();
      const steps = world.upkeepQueue.taken().map(({ body }) => body);
      await world.keepUp(steps);
      await world.drain(destination);
      await world.settled();
      if (steps.length === 0) return;
      world.clock.pass(10_000);
    }
    throw new Error("The replay does not end");
  }

  return {
    world,
    caughtUp,
    agent: agentOf(principal),
    agentOf,
    happen,
    /** Sets the response to requests to this URL, with any query. */
    on: (url: string, handler: (call: Call) => Response | Promise<Response>) =>
      void handlers.set(url, handler),
    /** Requests to this URL, with any query. */
    to: (url: string) => world.receiver.calls.filter((call) => call.url.split("?")[0] === url),
  };
}
