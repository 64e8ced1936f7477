/** The receivers of the benchmark: they answer 204 at once and remember when each event came first. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export type Endpoints = Readonly<{
  urls: readonly string[];
  /** When an event first arrived, in ms of `performance.now()`, by its number. */
  arrivals: ReadonlyMap<number, number>;
  /** Resolves when so many different events have arrived; rejects when that takes too long. */
  arrived: (events: number, patienceMs: number) => Promise<void>;
  forget: () => void;
}>;

export async function openEndpoints(count: number): Promise<Endpoints> {
  const arrivals = new Map<number, number>();
  let awaited: { events: number; done: () => void } | undefined;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const number = Number(/"number":(\d+)/.exec(Buffer.concat(chunks).toString())?.[1]);
    if (!arrivals.has(number)) arrivals.set(number, performance.now());
    response.writeHead(204).end();
    if (awaited && arrivals.size >= awaited.events) awaited.done();
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    urls: Array.from({ length: count }, (_, i) => `http://127.0.0.1:${port}/${i}`),
    arrivals,
    forget: () => arrivals.clear(),
    arrived: (events, patienceMs) =>
      new Promise((resolve, reject) => {
        const late = () => reject(new Error(`${arrivals.size} of ${events} arrived in ${patienceMs} ms`));
        const timer = setTimeout(late, patienceMs);
        const done = () => {
          clearTimeout(timer);
          resolve();
        };
        awaited = { events, done };
        if (arrivals.size >= events) done();
      }),
  };
}
