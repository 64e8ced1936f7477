/**
 * The meaning of one HTTP exchange: for the delivery (success, retry or permanent failure), for the circuit (health),
 * and for logs and the API (its cause).
 *
 * Some rules hold for every destination and cannot be configured: every 2xx is a success, a redirect is never followed
 * and so is permanent, 410 is permanent. A preset decides about the other 4xx, and a destination's owner about any
 * other 4xx and 5xx. Everything else (5xx, a stray 1xx, 600 and above, no response) is retried: a retry too many costs
 * one request, a delivery given up too early is lost.
 *
 * Some failures arrive as responses: `exchangeOf` distinguishes them from a receiver's responses.
 */
import { type AttemptError, type Cause, tokenReasons } from "../reasons.ts";

export type { Cause } from "../reasons.ts";

/** The result of one HTTP exchange. */
export type Exchange =
  | {
      readonly kind: "response";
      readonly status: number;
      /** The raw field value. */
      readonly retryAfter?: string;
    }
  | {
      readonly kind: AttemptError;
      /** Present if Cloudflare's edge answered in the receiver's place, or the receiver refused an access token. */
      readonly status?: number;
      readonly retryAfter?: string;
    };

/** A response as it arrived, from any host. */
export type Answer = Readonly<{
  status: number;
  header: (name: string) => string | null;
  /** The beginning of the body of a refusal. */
  excerpt?: string | undefined;
}>;

/**
 * Classifies a response: the receiver's, or a failure that arrived as a response.
 *
 * In production `fetch` does not throw when a host behind Cloudflare cannot be reached, nor when a name does not resolve:
 * the edge answers 520 to 527 or 530, for some DNS errors 403 or 409. A receiver may use these statuses itself, and every
 * response that passes the edge has `server: cloudflare`. So all three must agree: the status, that header, and a body that
 * is nothing but the edge's `error code: N`, or its page with N in the title. Such a failure counts like the one that
 * `fetch` throws elsewhere.
 * https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/
 *
 * A challenge has a header of its own:
 * https://developers.cloudflare.com/cloudflare-challenges/challenge-types/challenge-pages/detect-response/
 */
export function exchangeOf(answer: Answer): Exchange {
  const { status, header } = answer;
  const retryAfter = header("retry-after");
  return {
    kind: (isChallenge(answer) ? "challenged" : edgeError(answer)) ?? "response",
    status,
    ...(retryAfter !== null && { retryAfter }),
  };
}

/** 410 is the receiver's word, whatever else is said with it. */
function isChallenge({ status, header }: Answer): boolean {
  return status >= 400 && status !== 410 && header("cf-mitigated")?.trim().toLowerCase() === "challenge";
}

const edgeStatuses: Readonly<Record<number, AttemptError>> = {
  /** The receiver closed or reset the connection, or sent something other than HTTP. */
  520: "connection_lost",
  521: "refused",
  522: "timeout",
  /** No route to its address. */
  523: "network",
  524: "timeout",
  525: "tls",
  526: "tls",
  527: "network",
};

const edgeCodes: Readonly<Record<number, AttemptError>> = {
  /** The name leads to an address that the edge must not call, to no address, or to another customer's zone. */
  1000: "dns",
  1001: "dns",
  1002: "dns",
  1004: "dns",
  1014: "dns",
  1016: "dns",
  1018: "dns",
  1023: "dns",
  /** A tunnel that nothing is connected to. */
  1033: "refused",
};

function edgeError(answer: Answer): AttemptError | undefined {
  const { status, header } = answer;
  // Most answers are none of these, and asking for a header takes longer than the rest.
  const isOfDns = status === 403 || status === 409;
  if (!isOfDns && status !== 530 && !(status in edgeStatuses)) return undefined;
  if (header("server")?.trim().toLowerCase() !== "cloudflare") return undefined;
  const code = edgeCodeOf(answer);
  if (code === undefined) return undefined;
  if (isOfDns) return edgeCodes[code];
  if (code === status) return edgeStatuses[code] ?? "network";
  return code >= 1000 && code < 2000 ? (edgeCodes[code] ?? "network") : undefined;
}

/** The code that an error of the edge has for a body, or in its page's title ("example.com | 522: Connection timed out"). */
function edgeCodeOf({ header, excerpt = "" }: Answer): number | undefined {
  const type = header("content-type") ?? "";
  if (!/^text\/(plain|html)\b/i.test(type)) return undefined;
  const found =
    /^\s*error code: (\d{3,4})\s*$/i.exec(excerpt) ??
    (/^text\/html/i.test(type) ? /<title>[^<]*\| (\d{3,4}): [^<]*<\/title>/i.exec(excerpt) : null);
  return found ? Number(found[1]) : undefined;
}

export type Classification = "success" | "permanent" | "retry";

/** `throttled`: a server that works and asks for less, so the circuit must not open. */
export type ExchangeHealth = "healthy" | "unhealthy" | "throttled";

/** A policy's decisions about statuses. */
export type StatusRules = {
  /** Either the permanent 4xx are listed and the rest are retried, or the other way round. */
  readonly clientErrors: { readonly permanent: readonly number[] } | { readonly retried: readonly number[] };
  /** The number of failures for a cause after which a delivery is not retried. */
  readonly attemptLimits: { readonly [cause in Cause]?: number };
  /** Statuses that the destination's owner decides about: 4xx but 410, and 5xx. */
  readonly overrides?: Readonly<{ retry: readonly number[]; fail: readonly number[] }>;
};

export function classify(exchange: Exchange, rules: StatusRules): Classification {
  if (exchange.kind !== "response") return "retry";
  const { status } = exchange;
  switch (Math.floor(status / 100)) {
    case 2:
      return "success";
    case 3:
      return "permanent";
    case 4:
      if (status === 410) return "permanent";
      return overridden(status, rules) ?? (isPermanentClientError(status, rules) ? "permanent" : "retry");
    default:
      return overridden(status, rules) ?? "retry";
  }
}

/**
 * Any response below 500 but 429 shows a server that works, even if it rejects the request: also where its 401 counts as
 * the failure of a token endpoint.
 */
export function healthOfExchange(exchange: Exchange): ExchangeHealth {
  if (tokenReasons.some((reason) => reason === exchange.kind)) return "healthy";
  if (exchange.kind !== "response") return "unhealthy";
  if (exchange.status === 429) return "throttled";
  return Math.floor(exchange.status / 100) === 5 ? "unhealthy" : "healthy";
}

/** Whether the concurrency window is halved: after 429 and after everything unhealthy, 502 and 504 included. */
export function backsOff(exchange: Exchange): boolean {
  return healthOfExchange(exchange) !== "healthy";
}

/** `http_503`, `timeout`, … */
export function causeOf(exchange: Exchange): Cause {
  return exchange.kind === "response" ? `http_${exchange.status}` : exchange.kind;
}

function overridden(status: number, { overrides }: StatusRules): Classification | undefined {
  if (overrides?.fail.includes(status)) return "permanent";
  return overrides?.retry.includes(status) ? "retry" : undefined;
}

function isPermanentClientError(status: number, { clientErrors }: StatusRules): boolean {
  return "permanent" in clientErrors
    ? clientErrors.permanent.includes(status)
    : !clientErrors.retried.includes(status);
}

/** The classes of results in figures: few and fixed, so that a receiver cannot add more. */
export const results = ["2xx", "3xx", "4xx", "429", "5xx", "other", "timeout", "network"] as const;

export type MetricResult = (typeof results)[number];

/**
 * `network`: no response of the receiver, for any reason but the timeout. A challenge is a response of a firewall in
 * front of it, and counts by its status. `other`: a status of no known class.
 */
export function resultOf({ kind, status }: Exchange): MetricResult {
  if (kind === "timeout") return "timeout";
  if (status === undefined || (kind !== "response" && kind !== "challenged")) return "network";
  if (status === 429) return "429";
  const ofClass = `${Math.floor(status / 100)}xx`;
  return results.find((result) => result === ofClass) ?? "other";
}
