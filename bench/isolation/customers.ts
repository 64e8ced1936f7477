/** The customers' endpoints: a hundred that are always healthy, and some that can be made to fail. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Endpoints, openEndpoints } from "../throughput/endpoints.ts";

/** `busy` answers slowly. */
export type Behaviour = "well" | "hangs" | "fails" | "busy";

/** The endpoints of all customers; `urls` is in the order of their numbers. */
export type Customers = Pick<Endpoints, "urls" | "arrivals"> &
  Readonly<{
    /** Sets how a customer's endpoint behaves; all are well at first. */
    behave: (customer: number, behaviour: Behaviour) => void;
  }>;

const BUSY_MS = 100;

export async function openCustomers(count: number): Promise<Customers> {
  const behaviours = new Map<number, Behaviour>();
  const endpoints = await openEndpoints(count, undefined, async (customer) => {
    const behaviour = behaviours.get(customer);
    if (behaviour === "hangs") return new Promise<never>(() => {});
    if (behaviour === "busy") await sleep(BUSY_MS);
    return behaviour === "fails" ? 500 : 204;
  });
  return { ...endpoints, behave: (customer, behaviour) => void behaviours.set(customer, behaviour) };
}
