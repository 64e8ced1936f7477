/**
 * A test event: signed and sent like any other, at once and past the gate's door, and told of in full. It is
 * no delivery: nothing is stored, nothing is counted, nothing is tried again.
 */
import { randomText } from "../id.ts";
import { isoTime } from "../iso-time.ts";
import type { Services } from "../services.ts";
import { type Destination, gateSettingsOf } from "../store/destination-settings.ts";
import { type Call, call } from "./call.ts";
import { connections } from "./connections.ts";
import { maskedHeaders } from "./masked-headers.ts";
import { prepare } from "./prepare.ts";
import { headersOf } from "./send.ts";
import { targetFault } from "./target.ts";

export type TestResult =
  | Readonly<{ kind: "made"; call: Call; sent: Sent }>
  /** It must not be called, or cannot at the moment, and why. */
  | Readonly<{ kind: "not_made"; fault: string }>;

export type Sent = Readonly<{ id: string; headers: Readonly<Record<string, string>>; body: string }>;

const TYPE = "breakwater.test";

export async function sendTestEvent(services: Services, destination: Destination): Promise<TestResult> {
  const { config, now } = services;
  const fault = targetFault(destination.url, config.allowPrivateDestinations);
  if (fault) return { kind: "not_made", fault };
  const prepared = await prepare(services, connections(1), destination);
  if (prepared.kind === "unready") return { kind: "not_made", fault: faults[prepared.refusal.reason] ?? "" };
  const message = { id: `test_${randomText(13)}`, body: bodyAt(now()), attempt: 1 };
  let headers: Record<string, string> = {};
  const made = await call(services, {
    url: destination.url,
    headers: async (at) => {
      headers = await headersOf(destination, message, prepared.signer, at);
      return headers;
    },
    body: message.body,
    timeoutMs: gateSettingsOf(destination).timeoutMs,
  });
  services.log({ what: "test_sent", destination: destination.id, status: statusOf(made), fault: made.fault });
  return {
    kind: "made",
    call: made,
    sent: { id: message.id, body: message.body, headers: maskedHeaders(headers, destination.headers ?? {}) },
  };
}

const faults: Readonly<Record<string, string>> = {
  sealed: "The destination's secret cannot be opened with the master keys of this deployment.",
  forbidden_address: "The destination's name leads to an address that is not on the public internet.",
  unresolved: "The destination's name could not be looked up.",
};

function bodyAt(now: number): string {
  const data = { message: "This is a test. Nothing has happened." };
  return JSON.stringify({ type: TYPE, timestamp: isoTime(now), data });
}

function statusOf({ exchange }: Call): number | string {
  return exchange.kind === "response" ? exchange.status : exchange.kind;
}
