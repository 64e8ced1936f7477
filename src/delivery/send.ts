/** One attempt: one signed HTTP exchange, and what came of it for its delivery. */
import { eventId } from "../id.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import type { LoadedDelivery } from "../store/work.ts";
import { type Call, call } from "./call.ts";
import type { Signer } from "./signature.ts";

export type Attempt = Readonly<{ work: LoadedDelivery }> & Call;

/** What is sent: `id` and `body` are signed, and the same on every attempt. `attempt` is its number, from 1. */
export type Message = Readonly<{ id: string; body: string; attempt: number }>;

export type How = Readonly<{ timeoutMs: number; signer: Signer }>;

const USER_AGENT = "Breakwater/0.1 (webhooks)";

/** Makes the attempt. The timeout starts here, so call it only when a connection is free. */
export async function send(services: Services, work: LoadedDelivery, { timeoutMs, signer }: How): Promise<Attempt> {
  const { event, destination, row } = work;
  const { body } = event;
  if (typeof body !== "string") throw new Error("A delivery without its body must not be attempted");
  const message = { id: eventId(event.id), body, attempt: (row?.attempts ?? 0) + 1 };
  const headers = (at: number) => headersOf(destination, message, signer, at);
  return { work, ...(await call(services, { url: destination.url, headers, body, timeoutMs })) };
}

/**
 * Ours are set over the destination's own, whose names may be spelled in any case. A plain object: the
 * request makes its `Headers` from it once.
 */
export async function headersOf(
  { headers }: Pick<Destination, "headers">,
  { id, body, attempt }: Message,
  signer: Signer,
  at: number,
): Promise<Record<string, string>> {
  const own = Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    ...(Object.fromEntries(own) as Record<string, string>),
    "content-type": "application/json",
    "user-agent": USER_AGENT,
    "webhook-attempt": String(attempt),
    ...(await signer(id, body, at)),
  };
}
