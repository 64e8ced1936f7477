/**
 * One HTTP exchange with a receiver. Never throws: whatever goes wrong on the way to it is an outcome. Nothing
 * is followed, and no more is read than what a person needs to see.
 */
import { faultOf } from "../log.ts";
import type { Exchange } from "../policy/outcome.ts";
import { type StatedLimits, statedLimits } from "../policy/receiver-limits.ts";
import type { Services } from "../services.ts";

export type Call = Readonly<{
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

type Order = Readonly<{
  url: string;
  /** Made for the time at which the call starts. */
  headers: (at: number) => Promise<Record<string, string>>;
  body: string;
  timeoutMs: number;
}>;

/** As much of a refusal as a person needs to see; the rest is never read. */
const EXCERPT_BYTES = 512;

/** The timeout starts here. */
export async function call(services: Services, { url, headers, body, timeoutMs }: Order): Promise<Call> {
  const startedAt = services.now();
  try {
    const signed = await headers(startedAt);
    const signal = AbortSignal.timeout(timeoutMs);
    const request = { method: "POST", redirect: "manual", headers: signed, body, signal } as const;
    const response = await services.fetch(url, request);
    const seen = await readAnswer(response, services.now());
    return { startedAt, endedAt: services.now(), ...seen };
  } catch (error) {
    return { startedAt, endedAt: services.now(), exchange: failureOf(error), fault: faultOf(error) };
  }
}

type Answer = Pick<Call, "exchange" | "location" | "excerpt" | "limits">;

async function readAnswer(response: Response, now: number): Promise<Answer> {
  const { status, headers } = response;
  const retryAfter = headers.get("retry-after");
  const location = headers.get("location");
  const limits = statedLimits((name) => headers.get(name), response.ok, now);
  const excerpt = response.ok ? await unread(response) : await excerptOf(response);
  return {
    exchange: { kind: "response", status, ...(retryAfter !== null && { retryAfter }) },
    ...(location !== null && isRedirect(status) && { location }),
    ...(limits && { limits }),
    ...(excerpt && { excerpt }),
  };
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

/** A success needs no explanation: its body is not read. */
async function unread({ body }: Response): Promise<undefined> {
  // How a body ends that nobody reads changes nothing.
  await body?.cancel().catch(() => {});
}

/** A body that breaks off has said what it said. */
async function excerptOf({ body }: Response): Promise<string> {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let room = EXCERPT_BYTES;
  try {
    while (reader && room > 0) {
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

/**
 * The runtime tells failures apart by name and message only. "Network connection lost." is what it says when nobody
 * listens at the port, and also when the receiver breaks off after it has read the request: whether the request
 * arrived is not known, so only what names a refusal is called one.
 */
function failureOf(error: unknown): Exchange {
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  if (name === "TimeoutError" || name === "AbortError") return { kind: "timeout" };
  if (/network connection lost/i.test(message)) return { kind: "connection_lost" };
  if (/connection refused/i.test(message)) return { kind: "refused" };
  if (/dns|name not resolved|enotfound/i.test(message)) return { kind: "dns" };
  return { kind: "network" };
}
