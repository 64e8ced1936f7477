/** A shop on Express: posts an event for each order, and receives what Breakwater delivers. */
import { breakwaterClient, dataOf } from "breakwater-client";
import { verifyParts, WebhookVerificationError } from "breakwater-client/verify";
import express from "express";

const { BREAKWATER_URL = "", BREAKWATER_KEY = "", WEBHOOK_SECRET = "", PORT = "3000" } = process.env;
const breakwater = breakwaterClient({ url: BREAKWATER_URL, key: BREAKWATER_KEY });
const app = express();

app.post("/orders", express.json(), async ({ body: order }, response) => {
  const { id } = dataOf(
    await breakwater.POST("/v1/events", {
      params: { header: { "idempotency-key": `order ${order.id}` } },
      body: { type: "order.created", tenant: "acme", data: order },
    }),
  );
  response.status(201).json({ event: id });
});

// The signature is of the exact bytes, so the body must not be parsed before it is verified.
app.post(
  "/webhooks",
  express.text({ type: () => true, limit: "1mb" }),
  ({ body = "", headers }, response) => {
    try {
      const { id, json } = verifyParts(body, headers, WEBHOOK_SECRET);
      console.log(id, json());
      response.sendStatus(204);
    } catch (error) {
      if (!(error instanceof WebhookVerificationError)) throw error;
      response.status(401).send(error.message);
    }
  },
);

app.listen(Number(PORT), "127.0.0.1");
