/**
 * Every reason that Breakwater gives for a state: the closed lists that code, database columns and OpenAPI share.
 *
 * The words are stored, logged and published, so they are not renamed. A list is `as const`: take its type for code and
 * columns (`$type<DeliveryReason>()`), and the list itself for `z.enum`. HTTP statuses are the one open family
 * (`http_503`): a delivery that is retrying shows the last attempt's.
 */

/** Why the gate does not grant a lease. `paused`, `hold` and `circuit_open` block the destination; the others pass. */
const gateReasons = [
  "paused",
  /** The receiver requested a hold with `Retry-After` or its rate limit headers. */
  "hold",
  "circuit_open",
  /** One attempt probes a half-open circuit; the others wait for its result. */
  "probing",
  /** As many attempts are under way as the concurrency window allows. */
  "concurrency",
  /** The rate, or the adaptive limit below it, is used up. */
  "rate",
  /** The destination takes longer than a queue batch may last, so only drains serve it. */
  "slow",
  /** Invocations that sent to it have ended in the middle, so only drains serve it, a few deliveries at a time. */
  "crash_loop",
  /** The receiver's shared limit: see core/group. */
  "group",
] as const;
export type GateReason = (typeof gateReasons)[number];

/** Why there is no access token to send: the destination cannot be served, even if its receiver would accept. */
export const tokenReasons = [
  /** The token endpoint could not be reached, or gave no answer that has a token. */
  "token_unavailable",
  /** The token endpoint refuses the client. */
  "token_refused",
] as const;
export type TokenReason = (typeof tokenReasons)[number];

/** Why a delivery is not attempted now: the gate's reasons, and those that are found before the gate is called. */
export const refusalReasons = [
  ...gateReasons,
  /** The sweep found the delivery lost on its way; it waits for a drain. */
  "recovered",
  /** No master key of this deployment opens the destination's secrets, headers or token. */
  "sealed",
  /** The destination's host name could not be looked up. */
  "unresolved",
  /** The destination's host name leads to an address that is not public. */
  "forbidden_address",
  ...tokenReasons,
  /** The destination's binding is not bound, is bound to something else, or is not for its tenant. */
  "unbound",
  /** The destination's transformation makes no request of the event. */
  "transform_failed",
] as const;
export type RefusalReason = (typeof refusalReasons)[number];

/** Why a delivery is `waiting`: refused, or requeued by an operator and waiting for its turn. */
export const waitingReasons = [
  ...refusalReasons,
  "retried",
  "replayed",
  /** Another event of its key came first. For a waiting delivery: that one has just ended, and now it is its turn. */
  "order",
] as const;

/** Results of an exchange in which the receiver gave no answer of its own. */
const exchangeErrors = [
  "timeout",
  /** The request may have arrived: the connection failed, before or after it was sent. */
  "connection_lost",
  /** Nothing listened at the port: the request certainly did not arrive. */
  "refused",
  "dns",
  /** The handshake failed, or the certificate is not valid. */
  "tls",
  "network",
  /** A firewall before the receiver asked for proof that a person sends the request. */
  "challenged",
] as const;
/** With the reasons of an attempt whose token the receiver has refused, when there is no other. */
export const attemptErrors = [...exchangeErrors, ...tokenReasons] as const;
export type AttemptError = (typeof attemptErrors)[number];

/** Why an attempt failed, in logs, in `last_error` and as the reason of a retry. */
export type Cause = `http_${number}` | AttemptError;

/** Why a delivery is `dead`. */
export const deadReasons = [
  /** The receiver refused it for good. */
  "permanent",
  /** The receiver answered 410. */
  "gone",
  /** Its attempts are used up. */
  "exhausted",
  /** Its age limit has passed. */
  "expired",
  /** Its URL may not be called, or its target cannot be read. */
  "forbidden_target",
  /** It does not fit into a message of the destination's queue. */
  "too_large",
  /** Its event was removed from the database by hand. */
  "event_removed",
  /** The stored event is damaged. */
  "corrupt",
  /** Attempted, and alone in its message, it came out of the dead-letter queue without having ended. */
  "poison",
] as const;
export type DeadReason = (typeof deadReasons)[number];

/** Why a delivery is `cancelled`. */
export const cancelReasons = [
  "destination_deleted",
  "cancelled_by_request",
  /** The content of its event has been erased. */
  "erased",
  /** The destination's transformation cancelled the delivery on purpose. */
  "transformed",
] as const;
export type CancelReason = (typeof cancelReasons)[number];

/**
 * Every named reason of a delivery as it is shown; `http_<status>` comes in addition. `scheduled` and `order_held` are never stored, and in
 * code `in_flight` is a state.
 */
export const deliveryReasons = [
  "scheduled",
  /** The first event of its key is dead and holds it. */
  "order_held",
  ...waitingReasons,
  /** Sent, and not answered yet. */
  "in_flight",
  ...exchangeErrors,
  ...deadReasons,
  ...cancelReasons,
] as const;
export type ShownReason = (typeof deliveryReasons)[number] | Cause;
export type DeliveryReason = Exclude<ShownReason, "in_flight">;

/** The one state in which a delivery is stored with that reason; undefined if it may be in several, or is not stored. */
export function stateOfReason(reason: string): "waiting" | "retrying" | "dead" | "cancelled" | undefined {
  const isIn = (list: readonly string[]) => list.includes(reason);
  if (isIn(tokenReasons)) return undefined;
  if (isIn(waitingReasons)) return "waiting";
  if (isIn(exchangeErrors) || reason === "in_flight" || reason.startsWith("http_")) return "retrying";
  return isIn(deadReasons) ? "dead" : isIn(cancelReasons) ? "cancelled" : undefined;
}

/** Why Breakwater pauses a destination by itself: its failure streak, or its transformation. */
export const disableReasons = ["rejecting", "failing", "transform_failing"] as const;
export type DisableReason = (typeof disableReasons)[number];

/** Why a destination is paused: by an operator, after a 410, or by its failure streak. */
export const pauseReasons = ["manual", "gone", ...disableReasons] as const;
export type PauseReason = (typeof pauseReasons)[number];

/** Why a replay is slow (`doubtful`), still (`stuck`, `destination_paused`, `manual`) or cancelled. */
export const replayReasons = [
  "manual",
  "doubtful",
  "stuck",
  "destination_paused",
  "destination_deleted",
] as const;
export type ReplayReason = (typeof replayReasons)[number];

/** A refusal, and when to expect otherwise (epoch ms); null when only an operator can end it. */
export type Refusal = Readonly<{ reason: RefusalReason; until: number | null }>;
