/**
 * One attempt: one signed HTTP exchange, and what came of it. Never throws: whatever goes wrong on the
 * way to the receiver is an outcome of the attempt.
 */
import { eventId } from "../id.ts";
import { faultOf } from "../log.ts";
import type { Exchange } from "../policy/outcome.ts";
import { type StatedLimits, statedLimits } from "../policy/receiver-limits.ts";
import type { Services } from "../services.ts";
import type { Work } from "../store/work.ts";
import type { Signer } from "./signature.ts";

export type Attempt = Readonly<{
  work: Work;
  exchange: Exchange;
  startedAt: number;
  endedAt: number;
  /** Where a redirect would have led: it is not followed. */
  location?: string;
  /** The beginning of what the receiver said when it refused. */
  excerpt?: string;
  /** What the receiver says it will still take. */
  limits?: StatedLimits;
  /** What the network said. */
  fault?: string;
}>;

export type How = Readonly<{ timeoutMs: number; signer: Signer }>;

const USER_AGENT = "Breakwater/0.1 (webhooks)";
/** As much of a refusal as a person needs to see; the rest is never read. */
const EXCERPT_BYTES = 512;

/** Makes the attempt. The timeout starts here, so call it only when a connection is free. */
export async function send(services: Services, work: Work, { timeoutMs, signer }: How): Promise<Attempt> {
  const startedAt = services.now();
  try {
    const headers = await headersOf(work, signer, startedAt);
    const response = await services.fetch(work.destination.url, requestOf(work, headers, timeoutMs));
    const seen = await readAnswer(response, services.now());
    return { work, startedAt, endedAt: services.now(), ...seen };
  } catch (error) {
    return { work, startedAt, endedAt: services.now(), exchange: failureOf(error), fault: faultOf(error) };
  }
}

function requestOf({ event }: Work, headers: Record<string, string>, timeoutMs: number): RequestInit {
  const signal = AbortSignal.timeout(timeoutMs);
  return { method: "POST", redirect: "manual", headers, body: event.body, signal };
}

/**
 * Ours are set over the destination's own, whose names may be spelled in any case. A plain object: the
 * request makes its `Headers` from it once.
 */
async function headersOf({ event, destination }: Work, signer: Signer, at: number) {
  const own = Object.entries(destination.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    ...(Object.fromEntries(own) as Record<string, string>),
    "content-type": "application/json",
    "user-agent": USER_AGENT,
    ...(await signer(eventId(event.id), event.body, at)),
  };
}

type Answer = Pick<Attempt, "exchange" | "location" | "excerpt" | "limits">;

async function readAnswer(response: Response, now: number): Promise<Answer> {
  const { status, headers } = response;
  const retryAfter = headers.get("retry-after");
  const location = headers.get("location");
  const limits = statedLimits((name) => headers.get(name), response.ok, now);
  const excerpt = await excerptOf(response);
  return {
    exchange: { kind: "response", status, ...(retryAfter !== null && { retryAfter }) },
    ...(location !== null && { location }),
    ...(limits && { limits }),
    ...(excerpt && { excerpt }),
  };
}

/** A success needs no explanation: its body is not read. A body that breaks off has said what it said. */
async function excerptOf(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let room = EXCERPT_BYTES;
  try {
    while (reader && !response.ok && room > 0) {
      const { value, done } = await reader.read();
      if (done) break;
      text += decoder.decode(value.subarray(0, room), { stream: true });
      room -= value.byteLength;
    }
    await reader?.cancel();
  } catch {
    // The answer's status has arrived; how its body ended changes nothing.
  }
  return text;
}

/** The runtime tells failures apart by name and message only (see the platform's error shapes). */
function failureOf(error: unknown): Exchange {
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  if (name === "TimeoutError" || name === "AbortError") return { kind: "timeout" };
  if (/connection refused|network connection lost/i.test(message)) return { kind: "refused" };
  if (/dns|name not resolved|enotfound/i.test(message)) return { kind: "dns" };
  return { kind: "network" };
}
