/**
 * A local server with customers' endpoints, one for each path. It verifies signatures with the public library that a
 * customer would use, answers as the caller decides, and records every request: its log is the proof of what was sent.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";

/** One request; `answeredAt` and `status` are set when it has been answered. Times are epoch ms. */
export type Hit = {
  readonly path: string;
  readonly id: string;
  readonly body: string;
  readonly verified: boolean;
  readonly rejection?: string;
  /** The number of the attempt that the sender names; NaN where it names none. */
  readonly attempt: number;
  readonly at: number;
  answeredAt?: number;
  status?: number;
  /** Whether the sender hung up before the answer. */
  hungUp?: boolean;
};

export type Reply = Readonly<{
  status: number;
  afterMs?: number;
  headers?: Readonly<Record<string, string>>;
  /** Nothing by default. */
  body?: string;
}>;

export type ReceiverServer = Readonly<{
  url: string;
  hits: readonly Hit[];
  /** The signing secret of each path; a request to a path without one is not verified. */
  secrets: Map<string, string>;
  close: () => void;
}>;

type Options = Readonly<{
  /** Default: any free port. */
  port?: number;
  address?: string;
  /** The signing secret of every path that has none in `secrets`. */
  secret?: string;
  /** Called when a request has been answered, or its sender has hung up. */
  onEnd?: (hit: Hit) => void;
  /** Whether requests are recorded in `hits`; true by default. A run of hours cannot record them all. */
  recordsHits?: boolean;
}>;

/** @param answer decides the reply to a request, which is in the list of hits already */
export async function startReceiver(
  answer: (hit: Hit) => Reply,
  { port = 0, address = "127.0.0.1", secret, onEnd = () => {}, recordsHits = true }: Options = {},
): Promise<ReceiverServer> {
  const hits: Hit[] = [];
  const secrets = new Map<string, string>();
  const server = createServer(async (request, response) => {
    const hit = await readHit(request, (path) => secrets.get(path) ?? secret).catch(() => undefined);
    // The sender died before the end of the body: nothing has arrived.
    if (!hit) return;
    if (recordsHits) hits.push(hit);
    response.once("close", () => {
      if (hit.status !== undefined) return;
      hit.hungUp = true;
      onEnd(hit);
    });
    const { status, afterMs = 0, headers = {}, body } = answer(hit);
    if (afterMs > 0) await sleep(afterMs);
    Object.assign(hit, { status, answeredAt: Date.now() });
    if (!hit.hungUp) onEnd(hit);
    response.writeHead(status, headers).end(body);
  });
  server.listen(port, address);
  await once(server, "listening");
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: urlOf(server.address() as AddressInfo), hits, secrets, close };
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

async function readHit(
  request: IncomingMessage,
  secretOf: (path: string) => string | undefined,
): Promise<Hit> {
  const at = Date.now();
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  const path = request.url ?? "/";
  const id = String(request.headers["webhook-id"] ?? "");
  const attempt = Number(request.headers["webhook-attempt"] ?? Number.NaN);
  const rejection = rejectionOf(request, body, secretOf(path));
  return { path, id, body, at, attempt, verified: rejection === undefined, ...(rejection && { rejection }) };
}

/** Undefined when the signature verifies. */
function rejectionOf(request: IncomingMessage, body: string, secret: string | undefined): string | undefined {
  if (secret === undefined) return "no secret";
  try {
    new Webhook(secret).verify(body, request.headers as Record<string, string>);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
