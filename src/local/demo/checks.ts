/** Whether the demo may be believed: every promise that it shows is checked against what the receiver saw. */
import type { Hit } from "../receiver.ts";
import { evidenceOf, ON_THE_WAY_MS, succeeded } from "./evidence.ts";
import { countOf, type DemoStanding } from "./standing.ts";
import type { Posted } from "./traffic.ts";

/** What was let in before the receiver asked for quiet hears of it from the gate within a second, and then stops. */
const LET_IN_MS = 1_000 + ON_THE_WAY_MS;

/** What went wrong, in sentences; empty when nothing did. */
export function faultsOf(standing: DemoStanding, posted: readonly Posted[], hits: readonly Hit[]): string[] {
  const { customer, planned } = standing;
  const { unsigned, altered, atOnce, early } = evidenceOf(hits);
  const limit = customer.fate.settings.max_concurrency;
  const late = early.filter((ms) => ms > LET_IN_MS).length;
  const ended = countOf(standing, "delivered", "dead", "cancelled");
  const faults = [
    unsigned > 0 && `${unsigned} requests had a signature that did not verify`,
    altered > 0 && `${altered} events changed their bytes between attempts`,
    atOnce > limit && `${atOnce} requests were under way at once; its limit is ${limit}`,
    late > 0 && `${late} requests were let in while it had asked for quiet`,
    ended < planned && `${planned - ended} of ${planned} deliveries have not ended`,
    ...endFaults(standing, posted, hits),
  ];
  return faults.flatMap((fault) => (fault ? [`${customer.fate.name}: ${fault}`] : []));
}

function endFaults(standing: DemoStanding, posted: readonly Posted[], hits: readonly Hit[]): (string | false)[] {
  const { customer } = standing;
  const delivered = countOf(standing, "delivered");
  if (customer.fate.ends === "given up") {
    return [delivered > 0 && `${delivered} deliveries to a receiver that is gone count as delivered`];
  }
  const arrived = new Set(hits.filter(succeeded).map(({ id }) => id));
  const missing = posted.filter(
    ({ id, destinations }) => destinations.includes(customer.id) && !arrived.has(id),
  );
  return [missing.length > 0 && `${missing.length} accepted events did not arrive, ${missing[0]?.id} first`];
}
