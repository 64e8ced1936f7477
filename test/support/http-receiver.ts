/** A receiver over HTTP on this machine, for deliveries of a whole runtime. It answers 204 and records the requests. */
import { once } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { localServer } from "./local-server.ts";

/** A recorded request. */
export type Hit = Readonly<{ path: string; headers: IncomingHttpHeaders; body: string }>;

export type HttpReceiver = Readonly<{
  /** The address, without a path. */
  url: string;
  hits: readonly Hit[];
  stop: () => void;
}>;

export async function startHttpReceiver(): Promise<HttpReceiver> {
  const hits: Hit[] = [];
  const server = localServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    hits.push({ path: request.url ?? "/", headers: request.headers, body });
    response.writeHead(204).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, hits, stop };
}
