/**
 * What one HTTP exchange means: for the delivery (success, retry or permanent failure), for the circuit (health), and
 * for logs and the API (its cause).
 *
 * Some rules hold for every destination and cannot be configured: every 2xx is a success, a redirect is never followed
 * and so is permanent, 410 is permanent. A preset decides about the other 4xx, and a destination's owner about any
 * other 4xx and 5xx. Everything else (5xx, a stray 1xx, 600 and above, no response) is retried: a retry too many costs
 * one request, a delivery given up too early is lost.
 */
import type { Cause } from "../reasons.ts";

export type { Cause } from "../reasons.ts";

/** The result of one HTTP exchange. */
export type Exchange =
  | {
      readonly kind: "response";
      readonly status: number;
      /** The raw field value. */
      readonly retryAfter?: string;
    }
  | { readonly kind: "timeout" }
  /** The request may have arrived: the connection failed, before or after it was sent. */
  | { readonly kind: "connection_lost" }
  /** Nothing listened at the port: the request certainly did not arrive. */
  | { readonly kind: "refused" }
  | { readonly kind: "dns" }
  | { readonly kind: "network" };

export type Classification = "success" | "permanent" | "retry";

/** `throttled`: a server that works and asks for less, so the circuit must not open. */
export type Health = "healthy" | "unhealthy" | "throttled";

/** What a policy decides about statuses. */
export type StatusRules = {
  /** Either the permanent 4xx are listed and the rest are retried, or the other way round. */
  readonly clientErrors: { readonly permanent: readonly number[] } | { readonly retried: readonly number[] };
  /** A delivery that has failed for this cause so many times is not retried. */
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

/** Any response below 500 but 429 shows a server that works, even if it rejects the request. */
export function healthOf(exchange: Exchange): Health {
  if (exchange.kind !== "response") return "unhealthy";
  if (exchange.status === 429) return "throttled";
  return Math.floor(exchange.status / 100) === 5 ? "unhealthy" : "healthy";
}

/** Whether the concurrency window is halved: after 429 and after everything unhealthy, 502 and 504 included. */
export function backsOff(exchange: Exchange): boolean {
  return healthOf(exchange) !== "healthy";
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
