/** A shop on Hono: posts an event for each order, and receives what Breakwater delivers. */
import { breakwaterClient, dataOf } from "breakwater-client";
import { verify, WebhookVerificationError } from "breakwater-client/verify";
import { Hono } from "hono";

type Bindings = Readonly<{ BREAKWATER_URL: string; BREAKWATER_KEY: string; WEBHOOK_SECRET: string }>;

const app = new Hono<{ Bindings: Bindings }>();

app.post("/orders", async (c) => {
  const order = await c.req.json<{ id: string }>();
  const breakwater = breakwaterClient({ url: c.env.BREAKWATER_URL, key: c.env.BREAKWATER_KEY });
  const { id } = dataOf(
    await breakwater.POST("/v1/events", {
      params: { header: { "idempotency-key": `order ${order.id}` } },
      body: { type: "order.created", tenant: "acme", data: order },
    }),
  );
  return c.json({ event: id }, 201);
});

app.post("/webhooks", async (c) => {
  try {
    const { id, json } = await verify(c.req.raw, c.env.WEBHOOK_SECRET);
    console.log(id, json());
    return c.body(null, 204);
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    return c.text(error.message, 401);
  }
});

export default app;
