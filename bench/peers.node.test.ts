/** Compares Breakwater's peers on small fake servers that speak their APIs. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { compare } from "./peers/compare.ts";
import { outpost, type Server, svix } from "./peers/servers.ts";
import { type Endpoints, openEndpoints } from "./throughput/endpoints.ts";
import type { Shape } from "./throughput/load.ts";

const SINGLE: Shape = { name: "One by one", events: 60, perPost: 1, connections: 4 };
const BATCHES: Shape = { name: "In batches", events: 200, perPost: 100, connections: 2 };
const TOKEN = "a-token";

type Answer = readonly [status: number, body?: object];
/** A fake server, which delivers posted events to its endpoints. */
type Fake = Readonly<{ server: Server; made: ReadonlySet<string>; stop: () => void }>;

async function fake(
  answer: (method: string, path: string, body: Record<string, unknown>, made: Set<string>) => Answer,
): Promise<Fake> {
  const made = new Set<string>();
  const server = createServer(async (request, response) => {
    const isKnown = request.headers.authorization === `Bearer ${TOKEN}`;
    const { method = "GET", url = "/" } = request;
    const [status, body] = isKnown ? answer(method, url, await bodyOf(request), made) : [401];
    response.writeHead(status, { "content-type": "application/json" });
    response.end(body === undefined ? undefined : JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  const at = { url: `http://127.0.0.1:${port}`, token: TOKEN, pids: [], note: "a fake" };
  return { server: at, made, stop };
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return chunks.length === 0 ? {} : JSON.parse(Buffer.concat(chunks).toString());
}

function send(url: string | undefined, data: unknown, header: string): void {
  if (url === undefined) throw new Error("No endpoint takes it");
  void fetch(url, { method: "POST", headers: { [header]: "v1,bm8=" }, body: JSON.stringify(data) });
}

function fakeSvix(header = "svix-signature"): Promise<Fake> {
  const urls = new Map<string, string>();
  return fake((method, path, body, made) => {
    if (method === "POST" && path === "/api/v1/app/") {
      made.add("app_1");
      return [201, { id: "app_1", name: body.name }];
    }
    if (method === "POST" && path === "/api/v1/app/app_1/endpoint/") {
      for (const channel of body.channels as string[]) urls.set(channel, String(body.url));
      return [201, { id: `ep_${urls.size}` }];
    }
    if (method === "POST" && path === "/api/v1/app/app_1/msg/") {
      send(urls.get(String(body.channels)), body.payload, header);
      return [202, { id: "msg_1" }];
    }
    if (method === "DELETE" && path === "/api/v1/app/app_1/") {
      made.delete("app_1");
      return [204];
    }
    return [404];
  });
}

function fakeOutpost(): Promise<Fake> {
  const urls = new Map<string, string>();
  return fake((method, path, body, made) => {
    const [, tenant, rest] = /^\/api\/v1\/tenants\/([\w-]+)(\/destinations)?$/.exec(path) ?? [];
    if (tenant && rest && method === "POST" && made.has(tenant)) {
      for (const topic of body.topics as string[])
        urls.set(`${tenant} ${topic}`, (body.config as { url: string }).url);
      return [201, { id: `des_${urls.size}`, type: body.type }];
    }
    if (tenant && method === "PUT") {
      made.add(tenant);
      return [201, { id: tenant }];
    }
    if (tenant && method === "DELETE") {
      made.delete(tenant);
      return [200, { success: true }];
    }
    if (method === "POST" && path === "/api/v1/publish") {
      send(urls.get(`${body.tenant_id} ${body.topic}`), body.data, "x-outpost-signature");
      return [202, { id: "evt_1" }];
    }
    return [404];
  });
}

describe("the comparison with other senders' servers", () => {
  let endpoints: Endpoints;
  const fakes: Fake[] = [];
  const started = async (one: Promise<Fake>): Promise<Fake> => {
    fakes.push(await one);
    return one;
  };

  beforeEach(async () => {
    endpoints = await openEndpoints(3);
  });
  afterEach(() => {
    endpoints.close();
    for (const { stop } of fakes.splice(0)) stop();
  });

  test("posts to each server in the form of its API, counts arrivals, and removes the objects that it created", async () => {
    const [theirs, other] = [await started(fakeSvix()), await started(fakeOutpost())];
    const made: number[] = [];
    const entrants = [
      { contender: svix(theirs.server), shapes: [SINGLE] },
      { contender: outpost(other.server), shapes: [SINGLE] },
    ];
    const log = () => made.push(theirs.made.size + other.made.size);
    const [table, ...more] = await compare(entrants, endpoints, 1, log);
    expect(more).toEqual([]);
    expect(table).toMatchObject({ name: "One by one", events: 60, rounds: 1 });
    expect(table?.contenders.map(({ name }) => name)).toEqual(["Svix server", "Outpost"]);
    for (const { acceptedPerSecond, deliveredPerSecond } of table?.contenders ?? []) {
      expect(deliveredPerSecond).toBeGreaterThan(0);
      expect(acceptedPerSecond).toBeGreaterThan(0);
    }
    // The processes that do the work are not known.
    for (const one of table?.contenders ?? []) expect(one).not.toHaveProperty("cpuSecondsPer1000");
    // Two contenders, and a round that warms up.
    expect(made).toEqual([2, 2, 2, 2]);
    expect(theirs.made.size + other.made.size).toBe(0);
  });

  test("fails when a server that should sign sends unsigned deliveries", async () => {
    const theirs = await started(fakeSvix("x-nothing"));
    const comparison = compare(
      [{ contender: svix(theirs.server), shapes: [SINGLE] }],
      endpoints,
      1,
      () => {},
    );
    await expect(comparison).rejects.toThrow("Svix server sent 60 unsigned");
    expect(theirs.made.size).toBe(0);
  });

  test("measures a contender that never signs, and leaves out one that is not installed", async () => {
    const theirs = await started(fakeSvix("x-nothing"));
    const unsigned = { ...svix(theirs.server), isUnsigned: true };
    const missing = { ...unsigned, name: "Absent", missing: () => "it is not installed" };
    const said: string[] = [];
    const entrants = [missing, unsigned].map((contender) => ({ contender, shapes: [SINGLE] }));
    const [table] = await compare(entrants, endpoints, 1, (text) => said.push(text));
    expect(table?.contenders.map(({ name }) => name)).toEqual(["Svix server"]);
    expect(said[0]).toBe("Without Absent: it is not installed.");
  });

  test("fails when batches are to be posted to a server that takes none", async () => {
    const theirs = await started(fakeSvix());
    const comparison = compare(
      [{ contender: svix(theirs.server), shapes: [BATCHES] }],
      endpoints,
      1,
      () => {},
    );
    await expect(comparison).rejects.toThrow();
    expect(theirs.made.size).toBe(0);
  });

  test("reports the answer of a server that refuses the setup", async () => {
    const theirs = await started(fakeSvix());
    const contender = svix({ ...theirs.server, token: "another" });
    const comparison = compare([{ contender, shapes: [SINGLE] }], endpoints, 1, () => {});
    await expect(comparison).rejects.toThrow("POST /api/v1/app/ answered 401");
  });
});
