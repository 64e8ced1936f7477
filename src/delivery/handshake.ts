/**
 * The handshake of the CloudEvents webhook specification (HTTP 1.1 Web Hooks for Event Delivery, §4): the
 * receiver is asked whether it wants our events, and how many requests a minute it allows.
 */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";

export type Handshake =
  /** `ratePerSecond` is undefined when the receiver allows any rate. */
  | Readonly<{ kind: "allowed"; ratePerSecond: number | undefined }>
  | Readonly<{ kind: "refused"; fault: string }>;

const TIMEOUT_MS = 10_000;

/** @param origin who asks: the host name of this Breakwater */
export async function shakeHands(services: Services, url: string, origin: string): Promise<Handshake> {
  try {
    const response = await services.fetch(url, {
      method: "OPTIONS",
      redirect: "manual",
      headers: { "webhook-request-origin": origin },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    await response.body?.cancel();
    return answerOf(response, origin);
  } catch (error) {
    return { kind: "refused", fault: `could not be asked: ${faultOf(error)}` };
  }
}

function answerOf({ ok, status, headers }: Response, origin: string): Handshake {
  const allowed = headers.get("webhook-allowed-origin");
  if (!ok) return { kind: "refused", fault: `answered the OPTIONS request with ${status}` };
  if (allowed === null) return { kind: "refused", fault: "answered without WebHook-Allowed-Origin" };
  if (allowed !== "*" && allowed.toLowerCase() !== origin.toLowerCase()) {
    return { kind: "refused", fault: `allows the origin ${JSON.stringify(allowed.slice(0, 100))} only` };
  }
  return { kind: "allowed", ratePerSecond: rateOf(headers.get("webhook-allowed-rate")) };
}

/** Requests per minute, or `*` for any. */
function rateOf(value: string | null): number | undefined {
  const perMinute = /^\s*\d{1,9}\s*$/.test(value ?? "") ? Number(value) : 0;
  return perMinute > 0 ? perMinute / 60 : undefined;
}
