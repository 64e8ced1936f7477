/** Verification of deliveries, for receivers: signatures of Standard Webhooks with a shared secret (`whsec_…`). */
import { WebhookVerificationError } from "standardwebhooks";
import { BodyWebhook } from "./body-webhook.ts";

export { WebhookVerificationError } from "standardwebhooks";

/** A delivery whose signature was verified. */
export type VerifiedDelivery = Readonly<{
  /** The event's id: the same for each attempt, so that a receiver can leave out what it has processed. */
  id: string;
  /** When the attempt was made, epoch ms. */
  sentAt: number;
  /** Which attempt this is, from 1. */
  attempt: number;
  /** The exact body. */
  bytes: Uint8Array;
  /** The body as text; where it is not UTF-8, with U+FFFD. */
  body: string;
  /** The body as JSON. @throws SyntaxError for other content */
  json(): unknown;
}>;

/**
 * Verifies a request of Breakwater and consumes its body. A failure is thrown, because a result could be ignored.
 * @param secrets the destination's signing secret, or several while it is being replaced
 * @throws WebhookVerificationError if none of the secrets has signed it in the last five minutes
 */
export async function verify(
  request: Request,
  secrets: string | readonly string[],
): Promise<VerifiedDelivery> {
  return verifyParts(await request.arrayBuffer(), request.headers, secrets);
}

/** The same for a body and headers from another framework, such as `IncomingMessage.headers` of Node. */
export function verifyParts(
  content: string | Uint8Array | ArrayBuffer,
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>,
  secrets: string | readonly string[],
): VerifiedDelivery {
  const bytes = bytesOf(content);
  const all = headersOf(headers);
  let fault: unknown = new WebhookVerificationError("There is no secret to verify with");
  for (const secret of [secrets].flat()) {
    fault = faultOf(bytes, all, secret);
    if (fault === undefined) break;
  }
  if (fault !== undefined) throw fault;
  // A byte order mark is signed, and part of the body.
  const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
  const body = typeof content === "string" ? content : decoder.decode(bytes);
  return {
    id: all["webhook-id"] ?? "",
    sentAt: Number(all["webhook-timestamp"]) * 1000,
    attempt: Number(all["webhook-attempt"] ?? 1),
    bytes,
    body,
    json: () => JSON.parse(body),
  };
}

function bytesOf(content: string | Uint8Array | ArrayBuffer): Uint8Array {
  if (typeof content === "string") return new TextEncoder().encode(content);
  if (content instanceof Uint8Array) return content;
  if (content instanceof ArrayBuffer) return new Uint8Array(content);
  throw new TypeError("Expected the body as it was sent: a string, a Uint8Array or an ArrayBuffer");
}

function faultOf(body: Uint8Array, headers: Record<string, string>, secret: string): unknown {
  try {
    new BodyWebhook(secret, body).verify("", headers, { jsonParse: false });
    return undefined;
  } catch (error) {
    return error;
  }
}

function headersOf(headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>) {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), String(value ?? "")]));
}
