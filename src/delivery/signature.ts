/**
 * The headers that prove an attempt is ours: Standard Webhooks, symmetric (`v1`).
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import { Webhook } from "standardwebhooks";

/**
 * Signs one attempt: the id and the body are the same on every attempt, the timestamp is this one's.
 * @param secret `whsec_` and base64
 * @param at epoch ms; sent as whole seconds
 */
export function signatureHeaders(
  id: string,
  body: string,
  secret: string,
  at: number,
): Record<string, string> {
  return {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at / 1000)),
    "webhook-signature": new Webhook(secret).sign(id, new Date(at), body),
  };
}
