/** The deliveries of one destination on its page; those that are selected can be repaired. */
import type { Child, FC } from "hono/jsx";
import { repairDeliveries } from "../../../features/deliveries/repairs.ts";
import { DeliveryLog, type LogPage } from "../../ui/delivery-log.tsx";
import { usePage } from "../../ui/page.tsx";
import { Pickable, RepairLinks } from "./repairs.tsx";

type Props = Readonly<{
  path: string;
  /** The id of the destination. */
  id: string;
  page: LogPage;
}>;

export const DestinationLog: FC<Props> = ({ path, id, page }) => {
  const { state, entries } = page;
  const query = new URLSearchParams({ ...(state !== "all" && { state }), destination_id: id });
  const mayPick = usePage().mayCall(repairDeliveries) && entries.length > 0;
  const form = (table: Child) => (
    <Pickable query={query} isOn={mayPick}>
      {table}
    </Pickable>
  );
  return (
    <DeliveryLog path={path} page={page} empty={emptyTexts[state]} mayPick={mayPick} form={form}>
      {mayPick && <RepairLinks query={query} />}
    </DeliveryLog>
  );
};

const emptyTexts: Readonly<Record<LogPage["state"], string>> = {
  all: "No attempts yet. The next event of a type that this destination takes appears here: post one, or send a test event to see whether the receiver answers.",
  queued: "No deliveries are queued for their first attempt.",
  waiting: "No deliveries are waiting.",
  retrying: "No deliveries are retrying.",
  delivered: "No deliveries are delivered.",
  dead: "No deliveries are dead.",
};
