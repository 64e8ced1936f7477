/** Events as a shop's systems would post them: plausible, and the same for the same seed. */
import { oneOf } from "../seeded-random.ts";

export type NewEvent = Readonly<{ type: string; data: unknown }>;

type Random = () => number;

const products = ["mug-blue", "tea-assam-250", "scarf-wool", "lamp-oak", "notebook-a5"] as const;
const firstNames = ["Ada", "Jonas", "Mei", "Tomás", "Leila", "Sam", "Ingrid", "Kofi"] as const;
const carriers = ["DHL", "PostNL", "UPS"] as const;

const order = (random: Random) => {
  const quantity = 1 + Math.floor(random() * 3);
  return {
    order_id: idOf("ord", random),
    customer_id: idOf("cus", random),
    items: [{ sku: oneOf(products, random), quantity }],
    total: { amount: quantity * priceOf(random), currency: "EUR" },
  };
};

const invoice = (random: Random) => ({
  invoice_id: idOf("inv", random),
  order_id: idOf("ord", random),
  amount_due: { amount: priceOf(random), currency: "EUR" },
});

const user = (random: Random) => {
  const name = oneOf(firstNames, random);
  const email = `${name
    .normalize("NFD")
    .replace(/[^A-Za-z]/g, "")
    .toLowerCase()}@example.com`;
  return { user_id: idOf("usr", random), name, email, marketing: random() < 0.5 };
};

const shipment = (random: Random) => ({
  shipment_id: idOf("shp", random),
  order_id: idOf("ord", random),
  carrier: oneOf(carriers, random),
});

/** A type is listed as often as its share of the traffic asks for. */
const kinds = [
  { type: "order.created", data: order },
  { type: "order.created", data: order },
  { type: "order.paid", data: order },
  { type: "invoice.created", data: invoice },
  { type: "invoice.paid", data: invoice },
  { type: "user.created", data: user },
  { type: "user.updated", data: user },
  { type: "shipment.dispatched", data: shipment },
] as const;

export function newEvents(count: number, random: Random): NewEvent[] {
  return Array.from({ length: count }, () => {
    const { type, data } = oneOf(kinds, random);
    return { type, data: data(random) };
  });
}

function idOf(prefix: string, random: Random): string {
  return `${prefix}_${Math.floor(random() * 36 ** 8)
    .toString(36)
    .padStart(8, "0")}`;
}

/** In cents. */
function priceOf(random: Random): number {
  return 495 + 100 * Math.floor(random() * 120);
}
