/** Verification of deliveries, for receivers: signatures of Standard Webhooks with a shared secret (`whsec_…`). */
import { Webhook, WebhookVerificationError } from "standardwebhooks";

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
  // `text()` would leave out a byte order mark, which is signed.
  const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
  return verifyParts(decoder.decode(await request.arrayBuffer()), request.headers, secrets);
}

/** The same for a body and headers from another framework, such as `IncomingMessage.headers` of Node. */
export function verifyParts(
  body: string,
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>,
  secrets: string | readonly string[],
): VerifiedDelivery {
  const all = headersOf(headers);
  let fault: unknown = new WebhookVerificationError("There is no secret to verify with");
  for (const secret of [secrets].flat()) {
    fault = faultOf(body, all, secret);
    if (fault === undefined) break;
  }
  if (fault !== undefined) throw fault;
  return {
    id: all["webhook-id"] ?? "",
    sentAt: Number(all["webhook-timestamp"]) * 1000,
    attempt: Number(all["webhook-attempt"] ?? 1),
    body,
    json: () => JSON.parse(body),
  };
}

function faultOf(body: string, headers: Record<string, string>, secret: string): unknown {
  try {
    new Webhook(secret).verify(body, headers, { jsonParse: false });
    return undefined;
  } catch (error) {
    return error;
  }
}

function headersOf(headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>) {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), String(value ?? "")]));
}
