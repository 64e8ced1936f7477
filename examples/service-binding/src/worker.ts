/** A shop: it sends an event for each order, and shows how its delivery goes. */
import { type BreakwaterEvents, BreakwaterProblem, unwrap } from "../../../src/bindings/client.ts";

type ShopEnv = Readonly<{ EVENTS: BreakwaterEvents }>;

type Order = Readonly<{ id: string; total: number }>;

export default {
  async fetch(request, { EVENTS }) {
    const [, first, id] = new URL(request.url).pathname.split("/");
    try {
      if (request.method === "POST" && first === "orders") {
        const orders = [(await request.json()) as Order | readonly Order[]].flat();
        return Response.json(await sendAll(EVENTS, orders), { status: 201 });
      }
      if (request.method === "GET" && first === "events" && id)
        return Response.json(unwrap(await EVENTS.event(id)));
      return new Response("There is nothing here", { status: 404 });
    } catch (error) {
      if (error instanceof BreakwaterProblem) return problemFor(error);
      throw error;
    }
  },
} satisfies ExportedHandler<ShopEnv>;

/** One order is sent under a key, so that the shop may repeat the call; several are one batch. */
async function sendAll(events: BreakwaterEvents, orders: readonly Order[]) {
  const [only] = orders;
  if (orders.length === 1 && only)
    return [unwrap(await events.send(eventOf(only), { idempotency_key: `order-${only.id}` }))];
  return unwrap(await events.sendBatch(orders.map(eventOf)));
}

function eventOf(order: Order) {
  return { type: "order.created", data: { order, at: new Date() } };
}

/** The shop's callers are to come again when Breakwater says so; what else is wrong is the shop's own fault. */
function problemFor({ problem }: BreakwaterProblem): Response {
  const { status, detail, retry_after_s } = problem;
  console.error(JSON.stringify({ what: "breakwater_problem", status, detail }));
  const headers = retry_after_s === undefined ? undefined : { "retry-after": String(retry_after_s) };
  return Response.json(problem, { status: status === 404 ? 404 : 503, ...(headers && { headers }) });
}
