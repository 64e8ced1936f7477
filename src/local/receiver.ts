/**
 * Customers' endpoints, all on one local server, told apart by their paths. It checks signatures with the
 * public library that a customer would use, answers what it is told to answer, and remembers every request:
 * what it has seen is the only proof of what was delivered.
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";

/** One request; `answeredAt` and `status` are set when it has been answered. Times are epoch ms. */
export type Hit = {
  readonly path: string;
  /** The event's id. */
  readonly id: string;
  readonly body: string;
  readonly verified: boolean;
  readonly at: number;
  answeredAt?: number;
  status?: number;
  /** The sender was gone before the answer. */
  hungUp?: boolean;
};

export type Reply = Readonly<{
  status: number;
  afterMs?: number;
  headers?: Readonly<Record<string, string>>;
}>;

export type Receiver = Readonly<{
  url: string;
  hits: readonly Hit[];
  /** The signing secret of each path. A request to a path without one does not verify. */
  secrets: Map<string, string>;
  close: () => void;
}>;

/** @param answer decides when a request has arrived; it is in the list of hits already */
export async function startReceiver(answer: (hit: Hit) => Reply): Promise<Receiver> {
  const hits: Hit[] = [];
  const secrets = new Map<string, string>();
  const server = createServer(async (request, response) => {
    const hit = await readHit(request, secrets).catch(() => undefined);
    // Its sender has died before it was through: nothing has arrived.
    if (!hit) return;
    hits.push(hit);
    response.once("close", () => {
      if (hit.status === undefined) hit.hungUp = true;
    });
    const { status, afterMs = 0, headers = {} } = answer(hit);
    if (afterMs > 0) await sleep(afterMs);
    Object.assign(hit, { status, answeredAt: Date.now() });
    response.writeHead(status, headers).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${port}`, hits, secrets, close };
}

async function readHit(request: IncomingMessage, secrets: ReadonlyMap<string, string>): Promise<Hit> {
  const at = Date.now();
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  const path = request.url ?? "/";
  const id = String(request.headers["webhook-id"] ?? "");
  return { path, id, body, at, verified: isSigned(request, body, secrets.get(path)) };
}

function isSigned(request: IncomingMessage, body: string, secret: string | undefined): boolean {
  try {
    if (secret === undefined) return false;
    new Webhook(secret).verify(body, request.headers as Record<string, string>);
    return true;
  } catch {
    return false;
  }
}
