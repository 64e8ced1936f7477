/** Posts events with unique numbers, by which their arrivals are recognized. */
import { type Running, typeOf } from "../throughput/contender.ts";
import { padded } from "../throughput/load.ts";

export type Post = (to: Running, customers: readonly number[]) => Promise<readonly Posted[]>;

/** An event on its way to a customer; `at` in ms of `performance.now()`, before it was sent. */
export type Posted = Readonly<{ number: number; customer: number; at: number }>;

/** Posts one event for each of the customers, in one request. Rejects unless they are accepted. */
export function newPost(): Post {
  let next = 0;
  return async ({ url, headers }, customers) => {
    const at = performance.now();
    const posted = customers.map((customer) => ({ number: next++, customer, at }));
    const events = posted.map(({ number, customer }) => ({
      type: typeOf(customer),
      data: padded(number),
    }));
    const response = await fetch(`${url}/v1/events/batch`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ events }),
    });
    const text = await response.text();
    if (response.status !== 202)
      throw new Error(`A post was answered ${response.status}: ${text.slice(0, 200)}`);
    return posted;
  };
}
