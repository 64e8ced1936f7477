/** The customers' endpoints: a hundred that are always healthy, and some that can be made to fail. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Endpoints, openEndpoints } from "../throughput/endpoints.ts";

/** `busy`: it answers slowly. */
export type Behaviour = "well" | "hangs" | "fails" | "busy";

/** By the customer's number. */
export type Customers = Pick<Endpoints, "urls" | "arrivals"> &
  Readonly<{
    /** All are well at first. */
    behave: (customer: number, mood: Behaviour) => void;
  }>;

const BUSY_MS = 100;

export async function openCustomers(count: number): Promise<Customers> {
  const moods = new Map<number, Behaviour>();
  const endpoints = await openEndpoints(count, undefined, async (customer) => {
    const mood = moods.get(customer);
    if (mood === "hangs") return new Promise<never>(() => {});
    if (mood === "busy") await sleep(BUSY_MS);
    return mood === "fails" ? 500 : 204;
  });
  return { ...endpoints, behave: (customer, mood) => void moods.set(customer, mood) };
}
