/**
 * Destinations of the kind `queue`: Cloudflare Queues. Either a queue that this Worker has a producer binding for
 * (`queue:ORDERS`), or one of any account over Cloudflare's HTTP API (`queue:account/queue`), with a token that is
 * stored sealed in `destinations.target_token`.
 *
 * A message is JSON: the event's type, the number of the attempt, the headers that an HTTP receiver would get, and the
 * body as a string, because the signature covers its exact bytes; a body that is not UTF-8 is in base64.
 * https://developers.cloudflare.com/api/resources/queues/subresources/messages/methods/push/
 */
import type { TextShape } from "../../core/shape.ts";
import { faultOf } from "../../log.ts";
import { USER_AGENT } from "../../secrets/deployment-marker.ts";
import { storedHeaders } from "../../store/destination.ts";
import { unlessAborted } from "../../time.ts";
import { ExchangeFailure, type Outgoing, type PostRequest, textOf } from "../http.ts";
import { bindingField, bindingOf } from "./binding.ts";
import { type Kind, malformed, type PreparedSend, type TargetFault, type TargetFields } from "./kind.ts";
import { openToken } from "./token.ts";

/** The message that a consumer of the queue gets. */
export type QueueMessage = Readonly<{
  type: string;
  /** From 1. */
  attempt: number;
  headers: Readonly<Record<string, string>>;
}> &
  Body;

/** The bytes of a body as JSON can hold them. */
type Body = Readonly<{ body: string } | { body_base64: string }>;

function hexId(what: string) {
  return {
    kind: "text",
    pattern: /^[0-9a-f]{32}$/,
    expected: "32 hexadecimal digits",
    nullable: true,
    optional: true,
    meta: {
      description: `The id of the ${what}, of kind \`queue\` without a binding.`,
      example: "023e105f4ecef8ad9ca31a8372d0c353",
    },
  } as const satisfies TextShape;
}

const fields = {
  binding: bindingField,
  account_id: hexId("Cloudflare account that has the queue"),
  queue_id: hexId("queue"),
  token: {
    kind: "text",
    pattern: /^[!-~]{20,500}$/,
    expected: "an API token of 20 to 500 characters without spaces",
    nullable: true,
    optional: true,
    meta: {
      description:
        "An API token of that account with the permission Queues Edit. It is stored sealed and never shown.",
      writeOnly: true,
    },
  },
} as const satisfies Kind["fields"];

/** 1 KB of the limit on messages is 1,000 bytes: https://developers.cloudflare.com/queues/platform/limits/ */
const MESSAGE_BYTES = 128_000;
/**
 * Bytes of a message for Breakwater's headers with up to six signatures, for its other fields, and for Cloudflare's own.
 */
const RESERVED_BYTES = 8_000;
const FREE_BYTES = MESSAGE_BYTES - RESERVED_BYTES;
/** The most bytes of JSON for a byte of UTF-8: a control character takes six. */
const MOST_BYTES = 6;
/** The quotes around a string. */
const QUOTES_BYTES = 2;

type QueueTarget =
  | Readonly<{ kind: "binding"; binding: string }>
  | Readonly<{ kind: "account"; accountId: string; queueId: string }>;

export const queue = {
  fields,
  binds: "queue",

  faults(given) {
    const outside = (["account_id", "queue_id", "token"] as const).filter(
      (name) => given[name] !== undefined,
    );
    if (given.binding !== undefined)
      return outside.map((field) => fault(field, "is given together with binding", "one or the other"));
    if (outside.length === 0)
      return [fault("binding", "is missing", "a binding, or account_id, queue_id and token")];
    const missing = (["account_id", "queue_id", "token"] as const).filter((name) => !outside.includes(name));
    return missing.map((field) =>
      fault(field, "is missing", `it together with ${outside.join(" and ")}, or a binding instead`),
    );
  },

  textOf: ({ binding, account_id, queue_id }) => `queue:${binding ?? `${account_id}/${queue_id}`}`,

  fieldsOf(text): TargetFields | undefined {
    const target = targetOf(text);
    if (target === undefined) return undefined;
    return target.kind === "binding"
      ? { binding: target.binding }
      : { account_id: target.accountId, queue_id: target.queueId };
  },

  obstacles(destination) {
    if (targetOf(destination.url) === undefined)
      return malformed("queue: and a binding, or queue:account/queue");
    // Sealed values are longer than the headers' own, so that these fit too.
    const own = storedHeaders(destination).values;
    const free = FREE_BYTES - (Object.keys(own).length === 0 ? 0 : bytesInJson(own));
    return (body) => {
      if (body.byteLength * MOST_BYTES + QUOTES_BYTES <= free) return undefined;
      const [text] = Object.values(bodyIn(body));
      const bytes = bytesInJson(text);
      if (bytes <= free) return undefined;
      const fault = `The body is ${bytes} bytes as a JSON string; a message has room for ${free}.`;
      return { reason: "too_large", fault };
    };
  },

  async prepare(services, _shared, { id, url, tenant, targetToken }): Promise<PreparedSend> {
    const target = targetOf(url);
    if (target?.kind === "account") {
      try {
        const token = await openToken(services.vault, id, targetToken ?? "");
        return { kind: "ready", post: postOverHttp(services.fetch, target, token) };
      } catch (error) {
        services.log({ what: "secret_unreadable", destination: id, error: faultOf(error) });
        return { kind: "unready", reason: "sealed" };
      }
    }
    const bound = target && bindingOf(services, "queue", target.binding, tenant);
    if (bound) return { kind: "ready", post: postThrough(bound.queue) };
    services.log({ what: "binding_unusable", destination: id });
    return { kind: "unready", reason: "unbound" };
  },
} as const satisfies Kind;

function fault(field: string, what: string, expected: string): TargetFault {
  return { field, fault: what, expected };
}

function targetOf(text: string): QueueTarget | undefined {
  const [, accountId, queueId] = /^queue:([0-9a-f]{32})\/([0-9a-f]{32})$/.exec(text) ?? [];
  if (accountId && queueId) return { kind: "account", accountId, queueId };
  const binding = /^queue:([A-Za-z_][A-Za-z0-9_]{0,63})$/.exec(text)?.[1];
  return binding === undefined ? undefined : { kind: "binding", binding };
}

function bytesInJson(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value)).byteLength;
}

export function queueMessageOf({ type, headers, body }: Omit<Outgoing, "signal">): QueueMessage {
  return { type, attempt: Number(headers["webhook-attempt"]), headers, ...bodyIn(body) };
}

function bodyIn(bytes: Uint8Array): Body {
  const body = textOf(bytes);
  return body === undefined ? { body_base64: bytes.toBase64() } : { body };
}

/** 202 says that the queue has stored the message, which a consumer has not seen yet. */
function postThrough(queue: Queue): PostRequest {
  return async (outgoing) => {
    try {
      await unlessAborted(queue.send(queueMessageOf(outgoing), { contentType: "json" }), outgoing.signal);
      return new Response(null, { status: 202 });
    } catch (error) {
      if (outgoing.signal.aborted) throw error;
      const status = statusOf(String(error instanceof Error ? error.message : error));
      if (status === undefined) throw new ExchangeFailure("network", faultOf(error));
      return new Response(faultOf(error), { status });
    }
  };
}

/**
 * A refusal by the queue, as the status that the HTTP API has for it: errors of the binding have a code at the end of the
 * message, or these words. https://developers.cloudflare.com/queues/reference/error-codes/
 */
function statusOf(message: string): 413 | 429 | undefined {
  if (/\b10204\b|too large|exceeds/i.test(message)) return 413;
  return /\b1025\d\b|too many requests|overloaded|storage limit/i.test(message) ? 429 : undefined;
}

function postOverHttp(
  fetch: typeof globalThis.fetch,
  { accountId, queueId }: Extract<QueueTarget, { kind: "account" }>,
  token: string,
): PostRequest {
  const url = `https://api.cloudflare.com/client/v4/accounts/${accountId}/queues/${queueId}/messages`;
  return async (outgoing) => {
    const { signal } = outgoing;
    const response = await fetch(url, {
      method: "POST",
      redirect: "manual",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "user-agent": USER_AGENT,
      },
      body: JSON.stringify({ body: queueMessageOf(outgoing), content_type: "json" }),
      signal,
    });
    if (!response.ok) return response;
    const answer: unknown = await unlessAborted(response.json(), signal).catch(() => undefined);
    const isStored = (answer as { success?: unknown } | null | undefined)?.success === true;
    if (!isStored)
      throw new ExchangeFailure("network", `The API answered ${response.status} without success`);
    const { status, headers } = response;
    return new Response(null, { status, headers });
  };
}
