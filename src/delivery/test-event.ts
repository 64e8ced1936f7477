/**
 * Requests to a destination that are not deliveries: nothing is stored, nothing is counted, nothing is retried.
 *
 * A test event is signed and sent like any other, at once and without its gate, and reported in full. The handshake of
 * the CloudEvents webhook specification (HTTP 1.1 Web Hooks for Event Delivery, section 4) asks the receiver whether it
 * accepts our events, and how many requests a minute it allows.
 */

import type { EventVersion } from "../core/bundle.ts";
import { envelopeOf } from "../core/content.ts";
import { exchangeOf } from "../core/retry/classify.ts";
import { faultText, type Transformed, type TransformedRequest } from "../core/transform/result.ts";
import { randomText } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { type Destination, gateSettingsOf, isSubscription } from "../store/destination.ts";
import { isoTime } from "../time.ts";
import { prepare } from "./admission.ts";
import { maskedHeaders } from "./authorization.ts";
import { connections } from "./connections.ts";
import {
  bodyOfText,
  call,
  type EventRequest,
  excerptOf,
  type OutgoingCall,
  requestHeadersOf,
  type Sender,
} from "./http.ts";
import { isPolled, kindOf } from "./kinds/sending.ts";
import { sentSecrets } from "./signature.ts";
import { requestFor } from "./transform.ts";

export type TestResult =
  | Readonly<{ kind: "made"; call: OutgoingCall; sent: Sent }>
  /** Why the destination must not be called, or cannot be at the moment. */
  | Readonly<{ kind: "not_made"; fault: string }>;

export type Sent = Readonly<{ id: string; headers: Readonly<Record<string, string>>; body: string }>;

export type TestContent = Readonly<{ type: string; data: unknown; version?: EventVersion | undefined }>;

/** The test event of a deployment without a catalogue of types. */
export const plainTest: TestContent = {
  type: "breakwater.test",
  data: { message: "This is a test. Nothing has happened." },
};

export async function sendTestEvent(
  services: Services,
  destination: Destination,
  { type, data, version }: TestContent = plainTest,
): Promise<TestResult> {
  const envelope = envelopeOf(type, isoTime(services.now()), data);
  const request = await testRequest(services, destination, type, envelope, version);
  if ("fault" in request) return { kind: "not_made", ...request };
  const sender = await testSender(services, destination);
  if ("fault" in sender) return { kind: "not_made", ...sender };
  const { payload, way, headers: given } = request;
  const message = { id: newTestId(), type, headers: given, ...payload, attempt: 1 };
  let headers: Record<string, string> = {};
  const made = await call(services, {
    post: sender.post,
    type,
    headers: async (at) => {
      headers = await requestHeadersOf(services, message, sender, at);
      return headers;
    },
    credentials: sender.credentials,
    secretsIn: (sent) => sentSecrets(sent, {}, destination),
    body: message.body,
    way,
    timeoutMs: gateSettingsOf(destination).timeoutMs,
    isShown: true,
  });
  const { kind, status } = made.exchange;
  services.log({
    what: "test_sent",
    destination: destination.id,
    status: kind === "response" ? status : kind,
    fault: made.fault,
  });
  return {
    kind: "made",
    call: made,
    sent: {
      id: message.id,
      body: new TextDecoder().decode(message.body),
      headers: maskedHeaders(headers, sender.credentials.headers()),
    },
  };
}

/** A sentence: why a destination cannot be called. */
type NoTest = Readonly<{ fault: string }>;

/** The request for an event with this envelope. */
export async function testRequest(
  services: Services,
  destination: Destination,
  type: string,
  envelope: string,
  version?: EventVersion,
): Promise<EventRequest | NoTest> {
  if (isPolled(destination))
    return { fault: "An inbox gets no test events: post an event of a type that it takes." };
  if (isSubscription(destination))
    return { fault: "An MCP Events subscription gets only events of its type: post one." };
  const { config, now } = services;
  const body = bodyOfText(envelope);
  const event = { id: newestNumber, type, tenant: destination.tenant, acceptedAt: now(), body, version };
  const request = await requestFor(services, event, destination, "try");
  if ("kind" in request) return { fault: whyNot(request) };
  const kind = await kindOf(destination);
  const obstacle = kind.obstacles(destination, config)(request.payload.body);
  return obstacle ? { fault: obstacle.fault } : request;
}

/** The sender of requests of `testRequest`, whatever the state of the destination. */
export async function testSender(services: Services, destination: Destination): Promise<Sender | NoTest> {
  const prepared = await prepare(services, connections(), destination, { force: true });
  if (prepared.kind === "ready") return prepared.sender;
  const { refusal, fault } = prepared;
  return { fault: fault ?? faults[refusal.reason] ?? "" };
}

export function newTestId(): string {
  return `test_${randomText(13)}`;
}

/** The number of an event that no version of a transformation is too new for. */
const newestNumber = 2 ** 40 - 1;

function whyNot(result: Exclude<Transformed, TransformedRequest>): string {
  return result.kind === "cancelled"
    ? "The destination's transformation leaves this event out."
    : `The destination's transformation fails: ${faultText(result.fault)}.`;
}

const faults: Readonly<Record<string, string>> = {
  sealed: "The destination's secrets or token cannot be opened with the master keys of this deployment.",
  forbidden_address: "The destination's name leads to an address that is not on the public internet.",
  unresolved: "The destination's name could not be looked up.",
  unbound: "The deployment does not have the destination's binding, or no longer lets the tenant use it.",
};

type Handshake =
  /** `ratePerSecond` is undefined when the receiver allows any rate. */
  | Readonly<{ kind: "allowed"; ratePerSecond: number | undefined }>
  | Readonly<{ kind: "refused"; fault: string }>;

const TIMEOUT_MS = 10_000;

/** @param origin the host name of this Breakwater */
export async function shakeHands(services: Services, url: string, origin: string): Promise<Handshake> {
  try {
    const response = await services.fetch(url, {
      method: "OPTIONS",
      redirect: "manual",
      headers: { "webhook-request-origin": origin },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const excerpt = await excerptOf(response);
    const header = (name: string) => response.headers.get(name);
    const { kind } = exchangeOf({ status: response.status, header, excerpt });
    // Cloudflare answers in the place of a host that it cannot reach.
    if (kind !== "response") return { kind: "refused", fault: `could not be requested: ${kind}` };
    return answerOf(response, origin);
  } catch (error) {
    return { kind: "refused", fault: `could not be requested: ${faultOf(error)}` };
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
