/**
 * A tour of the typed client. It is compiled against the types that the Worker serves, and run against the Worker: what
 * is wrong must not compile, and the rest must work.
 */
import createClient, { type Client } from "openapi-fetch";
import type { Delivery, NewDestination, NewEvent, paths } from "./breakwater.d.ts";

export type Breakwater = Client<paths>;

export function breakwaterAt(baseUrl: string, key: string, fetch?: (request: Request) => Promise<Response>) {
  return createClient<paths>({
    baseUrl,
    headers: { authorization: `Bearer ${key}` },
    ...(fetch && { fetch }),
  });
}

/** From the first destination to the first delivery. */
export async function tour(breakwater: Breakwater) {
  const wanted: NewDestination = { url: "https://example.com/webhooks", event_types: ["invoice.*"] };
  const destination = await breakwater.POST("/v1/destinations", { body: wanted });
  if (!destination.data) throw new Error(destination.error.detail);
  const { id } = destination.data;
  const event = await breakwater.POST("/v1/events", {
    params: { header: { "idempotency-key": "inv_42 paid" } },
    body: { type: "invoice.paid", data: { invoice: "inv_42" } },
  });
  if (!event.data) throw new Error(event.error.detail);
  const changed = await breakwater.PATCH("/v1/destinations/{id}", {
    params: { path: { id } },
    body: { max_concurrency: 2, metadata: null, retry: { preset: "svix", max_attempts: 5 } },
  });
  const page = await breakwater.GET("/v1/deliveries", {
    params: { query: { destination_id: id, state: "queued" } },
  });
  const deliveries: Delivery[] = page.data?.data ?? [];
  const removed = await breakwater.DELETE("/v1/destinations/{id}", { params: { path: { id } } });
  return { secret: destination.data.secret, event: event.data, changed, deliveries, removed };
}

/** Requests that do not compile, and that the Worker refuses. */
export async function mistakes(breakwater: Breakwater) {
  // @ts-expect-error `tennant` is not a field
  const misspelt: NewEvent = { type: "a", data: 1, tennant: "acme" };
  const answers = [
    // @ts-expect-error a body is required
    await breakwater.POST("/v1/events", {}),
    // @ts-expect-error `type` is required
    await breakwater.POST("/v1/events", { body: { data: 1 } }),
    await breakwater.POST("/v1/events", { body: misspelt }),
    // @ts-expect-error `url` is a string
    await breakwater.POST("/v1/destinations", { body: { url: 1 } }),
    await breakwater.POST("/v1/destinations", {
      // @ts-expect-error there is no such preset
      body: { url: "https://example.com/", retry: { preset: "fast" } },
    }),
    // @ts-expect-error there is no such state
    await breakwater.GET("/v1/deliveries", { params: { query: { state: "lost" } } }),
    // @ts-expect-error there is no such reason
    await breakwater.GET("/v1/deliveries", { params: { query: { reason: "exhasuted" } } }),
    // @ts-expect-error there is no such route
    await breakwater.GET("/v1/nothing"),
    // @ts-expect-error events are posted, and not put
    await breakwater.PUT("/v1/events", { body: { type: "a", data: 1 } }),
  ];
  return answers.map(({ response }) => response.status);
}

/** Fields that do not exist, or may be absent, do not compile either. */
export async function reading(breakwater: Breakwater) {
  const { data, error } = await breakwater.GET("/v1/events/{id}", { params: { path: { id: "evt_1" } } });
  // @ts-expect-error `dilveries` is not a field
  data?.dilveries;
  // @ts-expect-error without data there may be nothing to read
  const careless = () => data.id;
  const faults: string[] = error?.errors?.map(({ field, expected }) => `${field}: ${expected}`) ?? [];
  return { status: error?.status, faults, careless };
}
