/**
 * A tour of the typed client. It is compiled against the API's types, and run against the Worker: wrong requests must
 * not compile, and the others must work.
 */
import {
  type Breakwater,
  type Delivery,
  dataOf,
  type NewDestination,
  type NewEvent,
} from "../../client/src/breakwater.ts";

/** From the first destination to the first delivery. */
export async function tour(breakwater: Breakwater) {
  const wanted: NewDestination = { url: "https://example.com/webhooks", event_types: ["invoice.*"] };
  const { id, secret } = dataOf(await breakwater.POST("/v1/destinations", { body: wanted }));
  const event = dataOf(
    await breakwater.POST("/v1/events", {
      params: { header: { "idempotency-key": "inv_42 paid" } },
      body: { type: "invoice.paid", data: { invoice: "inv_42" } },
    }),
  );
  const changed = await breakwater.PATCH("/v1/destinations/{id}", {
    params: { path: { id } },
    body: { max_concurrency: 2, metadata: null, retry: { preset: "svix", max_attempts: 5 } },
  });
  const deliveries: Delivery[] = [];
  for await (const delivery of breakwater.list("/v1/deliveries", { destination_id: id, state: "queued" }))
    deliveries.push(delivery);
  const removed = await breakwater.DELETE("/v1/destinations/{id}", { params: { path: { id } } });
  return { secret, event, changed, deliveries, removed };
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

/** Existing lists, and their filters. */
export async function listing(breakwater: Breakwater) {
  // @ts-expect-error a destination is no list
  breakwater.list("/v1/destinations/{id}");
  // @ts-expect-error there is no such filter
  breakwater.list("/v1/deliveries", { stat: "dead" });
  for await (const page of breakwater.pages("/v1/events", { limit: "1" })) {
    // @ts-expect-error a listed event has no deliveries
    page.data[0]?.deliveries;
    return page.data.length;
  }
  return undefined;
}
