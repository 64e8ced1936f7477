/**
 * What one HTTP exchange means: for the delivery (go on or stop), for the circuit (is anybody there?)
 * and for the logs (one short word).
 *
 * The rules that hold for every destination are written here and cannot be configured away: every 2xx is
 * a success, a redirect is never followed and so is permanent, 410 is permanent. A preset decides about
 * the other 4xx only, and a destination's owner about any other 4xx and 5xx. Whatever nobody has spoken about
 * (5xx, a stray 1xx, 600 and beyond, no response at all) is retried: a retry too many costs one request, a
 * delivery given up too early is lost.
 */
/** What one HTTP exchange came to, as the policy sees it. */
export type Exchange =
  | {
      readonly kind: "response";
      readonly status: number /** The raw field value. */;
      readonly retryAfter?: string;
    }
  | { readonly kind: "timeout" }
  /** The request may have arrived: the connection failed, before or after it was sent. */
  | { readonly kind: "connection_lost" }
  /** Certainly nobody listened. */
  | { readonly kind: "refused" }
  | { readonly kind: "dns" }
  | { readonly kind: "network" };

/** The short machine word for an exchange that did not succeed. */
export type Cause = `http_${number}` | "timeout" | "connection_lost" | "refused" | "dns" | "network";

export type Classification = "success" | "permanent" | "retry";

/** `throttled` is a living server that asks for less; the circuit must not open for it. */
export type Health = "healthy" | "unhealthy" | "throttled";

/** What a policy may decide about statuses. */
export type StatusRules = {
  /** Either the permanent 4xx are listed and the rest are retried, or the other way round. */
  readonly clientErrors: { readonly permanent: readonly number[] } | { readonly retried: readonly number[] };
  /** A cause listed here is not retried once the delivery has come to it that many times. */
  readonly attemptLimits: { readonly [cause in Cause]?: number };
  /** Statuses that the destination's owner has decided about: 4xx but 410, and 5xx. */
  readonly overrides?: Readonly<{ retry: readonly number[]; fail: readonly number[] }>;
};

/** Decides whether the delivery is done, is over, or deserves another attempt. */
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

/** Any answer below 500 but 429 shows a living server, however little it likes the request. */
export function healthOf(exchange: Exchange): Health {
  if (exchange.kind !== "response") return "unhealthy";
  if (exchange.status === 429) return "throttled";
  return Math.floor(exchange.status / 100) === 5 ? "unhealthy" : "healthy";
}

/** Whether the concurrency window is halved: after 429 and after everything unhealthy, 502 and 504 included. */
export function backsOff(exchange: Exchange): boolean {
  return healthOf(exchange) !== "healthy";
}

/** The word that logs and the API's `reason` show: `http_503`, `timeout`, … */
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
