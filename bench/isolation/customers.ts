/** The customers' endpoints: a hundred that are always healthy, and some that can be made to fail. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** `busy`: it answers slowly. */
export type Behaviour = "well" | "hangs" | "fails" | "busy";

export type Customers = Readonly<{
  /** Their endpoints, by the customer's number. */
  urls: readonly string[];
  /** All are well at first. */
  behave: (customer: number, mood: Behaviour) => void;
  /** When an event first arrived, in ms of `performance.now()`, by its number. */
  arrivals: ReadonlyMap<number, number>;
}>;

const BUSY_MS = 100;

export async function openCustomers(count: number): Promise<Customers> {
  const arrivals = new Map<number, number>();
  const moods = new Map<number, Behaviour>();
  const server = createServer(async (request, response) => {
    const number = await eventIn(request);
    if (!arrivals.has(number)) arrivals.set(number, performance.now());
    const mood = moods.get(Number(request.url?.slice(1)));
    if (mood === "hangs") return;
    if (mood === "busy") await sleep(BUSY_MS);
    response.writeHead(mood === "fails" ? 500 : 204).end();
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    urls: Array.from({ length: count }, (_, i) => `http://127.0.0.1:${port}/${i}`),
    behave: (customer, mood) => void moods.set(customer, mood),
    arrivals,
  };
}

/** The number of the event; NaN when the sender closed the connection first. */
async function eventIn(request: IncomingMessage): Promise<number> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk);
  } catch {
    return Number.NaN;
  }
  return Number(/"number":(\d+)/.exec(Buffer.concat(chunks).toString())?.[1]);
}
