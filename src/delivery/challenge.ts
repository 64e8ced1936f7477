/**
 * Asks a receiver for its consent before an MCP Events subscription sends it anything else: it has to repeat a random text, in a
 * signed request of its own.
 */
import { isJsonObject, parsedJson } from "../core/json-value.ts";
import { randomText } from "../ids.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination.ts";
import { bodyOfText, call, requestHeadersOf } from "./http.ts";
import { requestInit } from "./kinds/kind.ts";
import { signerFor } from "./signature.ts";
import { resolve } from "./url-guard.ts";

/** Why an address is not confirmed, in the words of the protocol: nothing of an answer is passed on. */
export type ChallengeFault = "connection_refused" | "timeout" | "tls_error" | "challenge_failed";

const TIMEOUT_MS = 10_000;

type Asked = Pick<Destination, "id" | "secret" | "url"> & Readonly<{ subscription: string }>;

/** Undefined when the receiver at the URL has consented. @param asked `secret` is sealed */
export async function challengeFault(services: Services, asked: Asked): Promise<ChallengeFault | undefined> {
  const fault = await faultIn(services, asked);
  services.log({ what: "challenge_sent", subscription: asked.subscription, result: fault ?? "confirmed" });
  return fault;
}

async function faultIn(services: Services, { id, secret, url, subscription }: Asked) {
  if (services.config.dnsResolver && (await resolve(services, url)).kind !== "public")
    return "connection_refused";
  const challenge = randomText(32);
  const body = bodyOfText(JSON.stringify({ type: "verification", challenge }));
  const message = {
    id: `msg_verification_${randomText(20)}`,
    type: "verification",
    contentType: "application/json",
    body,
    attempt: 1,
  };
  const signing = { id, secret, previousSecrets: [], signatureForms: null };
  const signer = await signerFor(services.vault, signing, services.now());
  const credentials = { headers: () => subscriptionHeader(subscription), secrets: () => [] };
  const { exchange, excerpt } = await call(services, {
    post: ({ way, ...sent }) => services.fetch(url, requestInit(sent, way)),
    type: message.type,
    headers: (at) => requestHeadersOf(services, message, { signer, credentials }, at),
    credentials,
    body,
    timeoutMs: TIMEOUT_MS,
    isShown: true,
  });
  switch (exchange.kind) {
    case "response": {
      const isAnswered = exchange.status >= 200 && exchange.status < 300;
      return isAnswered && repeats(excerpt ?? "", challenge) ? undefined : "challenge_failed";
    }
    case "timeout":
      return "timeout";
    case "tls":
      return "tls_error";
    default:
      return "connection_refused";
  }
}

/** The header by which a receiver knows which secret to verify a delivery with. */
export function subscriptionHeader(subscription: string): Readonly<Record<string, string>> {
  return { "x-mcp-subscription-id": subscription };
}

/** Compared in constant time: an attacker must not find the text out letter by letter. */
function repeats(answer: string, challenge: string): boolean {
  const [given, right] = [textIn(answer), challenge].map((text) => new TextEncoder().encode(text));
  if (!given || !right || given.byteLength !== right.byteLength) return false;
  return crypto.subtle.timingSafeEqual(given, right);
}

function textIn(answer: string): string {
  const value = parsedJson(answer);
  return isJsonObject(value) && typeof value.challenge === "string" ? value.challenge : "";
}
