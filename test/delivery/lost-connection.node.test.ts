/**
 * The real runtime's errors when a connection fails. A Worker sees the same error whether nothing listened or the
 * receiver broke off after it had read the request, so none of these may be called a refusal.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, expect, test } from "vitest";
import { noCredentials } from "../../src/delivery/authorization.ts";
import { call } from "../../src/delivery/http.ts";
import type { Services } from "../../src/services.ts";

const WORKER = `export default {
  async fetch(request) {
    try {
      await fetch(await request.text(), { method: "POST", body: "{}" });
      return Response.json(null);
    } catch ({ name, message }) {
      return Response.json({ name, message });
    }
  },
};`;

let place: string;
let runtime: Miniflare;
const servers: Server[] = [];
beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), "breakwater-connections-"));
  const scriptPath = join(place, "worker.mjs");
  writeFileSync(scriptPath, WORKER);
  const options = {
    name: "caller",
    modules: true,
    scriptPath,
    modulesRoot: place,
    host: "127.0.0.1",
    port: 0,
  };
  runtime = new Miniflare(convertV4MiniflareOptions(options));
  await runtime.ready;
});
afterAll(async () => {
  await runtime.dispose();
  for (const server of servers) server.close();
  rmSync(place, { recursive: true, force: true });
});

async function portOf(connected: (socket: Socket) => void): Promise<number> {
  const server = createServer(connected);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

async function closedPort(): Promise<number> {
  const port = await portOf(() => {});
  await new Promise((resolve) => servers.pop()?.close(resolve));
  return port;
}

/** The result of an attempt whose `fetch` fails like the runtime's. */
async function attemptAt(port: number) {
  const url = `http://127.0.0.1:${port}/`;
  const answer = await runtime.dispatchFetch("http://caller.example/", { method: "POST", body: url });
  const thrown = (await answer.json()) as Readonly<{ name: string; message: string }>;
  const post = () => Promise.reject(Object.assign(new Error(thrown.message), { name: thrown.name }));
  const services = { now: () => 0 } as unknown as Services;
  const order = { post, type: "t", headers: async () => ({}), body: new Uint8Array(), timeoutMs: 60_000 };
  return call(services, { ...order, credentials: noCredentials });
}

test.each<[string, () => Promise<number>]>([
  ["to a port where nobody listens", closedPort],
  ["that is closed as soon as it is open", () => portOf((socket) => socket.end())],
  ["that is closed after the request", () => portOf((socket) => socket.once("data", () => socket.end()))],
  [
    "that is reset after the request",
    () => portOf((socket) => socket.once("data", () => socket.resetAndDestroy())),
  ],
  [
    "that ends within the answer's headers",
    () => portOf((socket) => socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Le"))),
  ],
])("a connection %s is a lost connection, not a refused one", async (_, port) => {
  expect(await attemptAt(await port())).toMatchObject({
    exchange: { kind: "connection_lost" },
    fault: "Error: Network connection lost.",
  });
});
