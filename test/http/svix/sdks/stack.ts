/** The stack that the SDKs run against: Breakwater in the local runtime, and a receiver that records what it gets. */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { until } from "../../../scenario/until.ts";
import { startBreakwater } from "../../../support/breakwater-runtime.ts";
import { localServer } from "../../../support/local-server.ts";

export type Stack = Readonly<{
  url: string;
  key: string;
  receiverUrl: string;
  stop: () => Promise<void>;
}>;

const KEY = "test-admin-key-0123456789";

export async function startStack(): Promise<Stack> {
  const receiver = await startReceiver();
  const vars = { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" };
  const { url, stop } = await startBreakwater({ vars });
  const stopBoth = async () => {
    await stop();
    receiver.close();
  };
  return { url, key: KEY, receiverUrl: receiver.url, stop: stopBoth };
}

type Received = Readonly<{ path: string; headers: Readonly<Record<string, string>>; body: string }>;

/**
 * Answers 204 to every POST, but 410 to the first one of a path with `gone-once` in it.
 * `GET /received?path=/orders&count=2` waits for so many and answers with them: `[{headers, body}]`.
 */
async function startReceiver() {
  const received: Received[] = [];
  const of = (path: string) => received.filter((one) => one.path === path);

  async function record(path: string, request: IncomingMessage, response: ServerResponse) {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const headers = Object.fromEntries(Object.entries(request.headers).map(([k, v]) => [k, String(v)]));
    received.push({ path, headers, body });
    const isGone = path.includes("gone-once") && of(path).length === 1;
    response.writeHead(isGone ? 410 : 204).end();
  }

  async function show({ searchParams }: URL, response: ServerResponse) {
    const path = searchParams.get("path") ?? "";
    const count = Number(searchParams.get("count"));
    const otherwise = () => `only ${of(path).length} of ${count} came to ${path}`;
    await until(() => of(path).length >= count, { otherwise });
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(of(path)));
  }

  const server = localServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://receiver");
    const done = request.method === "GET" ? show(url, response) : record(url.pathname, request, response);
    done.catch((error: Error) => response.writeHead(504).end(error.message));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
