/** Parts of a destination's page that dashboard and portal both show. */
import { isPolled } from "../../delivery/kinds/sending.ts";
import { getBlockedKeys } from "../../features/deliveries/ordering.ts";
import { getConsumers } from "../../features/polling/service.ts";
import type { Caller } from "../../features/service.ts";
import type { Destination } from "../../store/destination.ts";
import { listReplays } from "../../store/replays.ts";
import { logStates, readLog } from "./delivery-log.tsx";
import type { Query } from "./format.ts";
import { readTransformFaults } from "./transform-page.tsx";

const REPLAYS_SHOWN = 3;

/**
 * Reads them. One is undefined where the destination has none, or it cannot be read.
 * @param tenant the one that is shown; all where it is undefined
 * @param query of the page: which deliveries are listed
 */
export async function readParts(
  caller: Caller,
  row: Destination,
  tenant: string | undefined,
  { state, before }: Query,
) {
  const { id } = row;
  const shown = logStates.find((name) => name === state) ?? "all";
  const latest = { tenant, destinationId: id, state: undefined, before: undefined, limit: REPLAYS_SHOWN };
  const [deliveries, { replays }, blocked, consumers, transformFaults] = await Promise.all([
    readLog(caller, row, { state: shown, before }),
    listReplays(caller.services, latest),
    row.ordering === null ? undefined : getBlockedKeys(caller, { destination: id }),
    isPolled(row) ? getConsumers(caller, id) : undefined,
    readTransformFaults(caller, row),
  ]);
  return {
    deliveries,
    replays,
    blocked: blocked?.kind === "ok" ? blocked.value : undefined,
    consumers: consumers?.kind === "ok" ? consumers.value : undefined,
    transformFaults,
  };
}

export type DestinationParts = Awaited<ReturnType<typeof readParts>>;
