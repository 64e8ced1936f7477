/** The scenarios of lines, and variants that are broken on purpose. */
import { type OrderParts, type OrderScenario, orderModel } from "./order.ts";
import { type Checked, checked, type Variant } from "./report.ts";

const oneKey: OrderScenario = { keys: ["a", "a"], failures: 1, deaths: 1 };

export const smallOrders: readonly Checked[] = [
  checked("Two events of one key, a failure, a death", () => orderModel(oneKey)),
  checked("Two events of one key and one of another, a failure", () =>
    orderModel({ keys: ["a", "b", "a"], failures: 1, deaths: 0 }),
  ),
];

const broken = (name: string, parts: OrderParts): Variant => checked(name, () => orderModel(oneKey, parts));

export const brokenOrders: readonly Variant[] = [
  broken("The order is not checked", { turn: (deliveries) => ({ ready: [...deliveries], parked: [] }) }),
  broken("The head leaves its line when it is attempted", {
    schema: `CREATE TRIGGER leaves_early AFTER INSERT ON deliveries WHEN new.state = 'retrying' BEGIN
      DELETE FROM lines WHERE destination_id = new.destination_id AND event_id = new.event_id; END`,
  }),
  broken("Whoever has been delivered stays in its line", {
    schema: "DROP TRIGGER packs_inserted_leave_line",
  }),
];
