/** The receivers of the benchmark. They record when each event first arrived, and answer 204 at once by default. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export type Endpoints = Readonly<{
  urls: readonly string[];
  /** When an event first arrived, in ms of `performance.now()`, by its number. */
  arrivals: ReadonlyMap<number, number>;
  /** Resolves when this many different events have arrived; rejects after `patienceMs`. */
  arrived: (events: number, patienceMs: number) => Promise<void>;
  /** How many requests have come without a header that ends in `-signature`. */
  unsigned: () => number;
  forget: () => void;
  close: () => void;
}>;

/** How senders on other machines reach the receivers: by this URL, which leads to this local port. */
export type Outside = Readonly<{ url: string; port: number }>;

/**
 * Opens the receivers; without `outside`, on a free port and for this machine only.
 * @param statusOf resolves with the status that an endpoint answers
 */
export async function openEndpoints(
  count: number,
  outside?: Outside,
  statusOf: (endpoint: number) => number | Promise<number> = () => 204,
): Promise<Endpoints> {
  const arrivals = new Map<number, number>();
  let unsigned = 0;
  let awaited: { events: number; done: () => void } | undefined;
  const server = createServer(async (request, response) => {
    const body = await text(request).catch(() => "");
    if (!Object.keys(request.headers).some((name) => name.endsWith("-signature"))) unsigned += 1;
    const number = Number(/"number":(\d+)/.exec(body)?.[1]);
    if (!arrivals.has(number)) arrivals.set(number, performance.now());
    if (awaited && arrivals.size >= awaited.events) awaited.done();
    response.writeHead(await statusOf(Number(request.url?.split("/").at(-1)))).end();
  });
  server.keepAliveTimeout = 60_000;
  const host = outside ? "0.0.0.0" : "127.0.0.1";
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(outside?.port ?? 0, host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  const base = outside?.url ?? `http://127.0.0.1:${port}`;
  return {
    urls: Array.from({ length: count }, (_, i) => `${base}/${i}`),
    arrivals,
    unsigned: () => unsigned,
    forget: () => {
      arrivals.clear();
      unsigned = 0;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
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
