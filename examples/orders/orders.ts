/** A shop: posts an event for each order and prints the deliveries that were given up. */
import { breakwaterClient, dataOf, ProblemError } from "breakwater-client";

const breakwater = breakwaterClient({
  url: process.env.BREAKWATER_URL ?? "http://localhost:8787",
  key: process.env.BREAKWATER_KEY ?? "",
});

type Order = Readonly<{ number: string; customer: string; total: number }>;

/** Stores the event of an order once, however often it is called for the same order. */
async function publish({ number, customer, total }: Order): Promise<string> {
  const { id } = dataOf(
    await breakwater.POST("/v1/events", {
      params: { header: { "idempotency-key": `order ${number}` } },
      body: { type: "order.created", tenant: customer, data: { number, total } },
    }),
  );
  return id;
}

try {
  const id = await publish({ number: "o-1", customer: "acme", total: 12.5 });
  console.log(`Order o-1 is event ${id}`);
  for await (const { event_id, reason } of breakwater.list("/v1/deliveries", {
    tenant: "acme",
    state: "dead",
  }))
    console.log(`Not delivered: ${event_id} (${reason})`);
} catch (error) {
  if (!(error instanceof ProblemError)) throw error;
  const fields = error.problem.errors?.map(({ field, expected }) => `\n  ${field}: expected ${expected}`);
  console.error(`${error.message}${fields?.join("") ?? ""}`);
  process.exitCode = 1;
}
