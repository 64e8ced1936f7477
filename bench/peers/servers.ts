/** Contenders that are running servers: how each is set up, and how an event is posted to it. */
import { randomUUID } from "node:crypto";
import { type ApiClient, apiClient } from "../../tools/stack.ts";
import { createDestinations } from "../throughput/breakwater.ts";
import { type Contender, type PostedEvent, type Running, SECRET, typeOf } from "../throughput/contender.ts";
import { ourRequest } from "../throughput/load.ts";

export type Server = Readonly<{
  url: string;
  /** Sent as `Authorization: Bearer`. */
  token: string;
  /** Its processes and those of its databases, where they run on this machine. */
  pids: readonly number[];
  /** Its version and settings, for the reader of the figures. */
  note: string;
}>;

/**
 * Creates an application with an endpoint for each channel. Event types would have to be created for the whole
 * organization.
 */
export function svix(server: Server): Contender {
  return contender("Svix server", server, async (api, endpoints) => {
    const { id } = await api.post<{ id: string }>("/api/v1/app/", { name: nameOfRun() });
    const app = `/api/v1/app/${id}`;
    for (const [i, url] of endpoints.entries()) {
      await api.post(`${app}/endpoint/`, { url, channels: [typeOf(i)], secret: SECRET });
    }
    return {
      request: ({ type, data }) => ({
        path: `${app}/msg/`,
        body: { eventType: "bench", channels: [type], payload: data },
      }),
      remove: () => api.remove(`${app}/`),
    };
  });
}

/**
 * Creates a tenant with a destination for each topic. Outpost makes the signing secrets itself: it takes none from a
 * customer.
 */
export function outpost(server: Server): Contender {
  return contender("Outpost", server, async (api, endpoints) => {
    const tenantId = nameOfRun();
    const tenant = `/api/v1/tenants/${tenantId}`;
    await api.put(tenant, {});
    for (const [i, url] of endpoints.entries()) {
      await api.post(`${tenant}/destinations`, { type: "webhook", topics: [typeOf(i)], config: { url } });
    }
    return {
      request: ({ type, data }) => ({
        path: "/api/v1/publish",
        body: { tenant_id: tenantId, topic: type, data },
      }),
      remove: () => api.remove(tenant),
    };
  });
}

/** Creates destinations of a tenant in a deployment, and removes them in the end. */
export function deployedBreakwater({ url, token, pids, note }: Server): Contender {
  return {
    name: "Breakwater, deployed",
    settings: note,
    missing: () => undefined,
    start: async (endpoints) => {
      const api = apiClient(url, token);
      const tenant = nameOfRun();
      const ids = await createDestinations(api, endpoints, tenant);
      const ofTenant = (event: PostedEvent) => ({ ...event, tenant });
      return {
        url,
        headers: { authorization: `Bearer ${token}` },
        pids,
        request: (events) => ourRequest(events.map(ofTenant)),
        stop: async () => {
          for (const id of ids) await api.remove(`/v1/destinations/${id}`);
        },
      };
    },
  };
}

type SetUp = (
  api: ApiClient,
  endpoints: readonly string[],
) => Promise<
  Readonly<{
    request: (event: PostedEvent) => ReturnType<NonNullable<Running["request"]>>;
    remove: () => Promise<void>;
  }>
>;

/** A server that takes one event a post. */
function contender(name: string, server: Server, setUp: SetUp): Contender {
  const { url, token, pids, note } = server;
  return {
    name,
    settings: note,
    missing: () => undefined,
    start: async (endpoints) => {
      const { request, remove } = await setUp(apiClient(url, token), endpoints);
      return {
        url,
        headers: { authorization: `Bearer ${token}` },
        pids,
        request: ([event, ...more]) => {
          if (event === undefined || more.length > 0) throw new Error(`${name} takes one event a post`);
          return request(event);
        },
        stop: remove,
      };
    },
  };
}

/** A unique name for created objects: others may use the server too. */
function nameOfRun(): string {
  return `breakwater-bench-${randomUUID()}`;
}
