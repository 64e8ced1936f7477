/** The messages between `npm run verify` and its receiver: JSON over HTTP. Times are epoch ms, by the receiver's clock. */

export type EndpointReply = Readonly<{
  status: number;
  afterMs?: number;
  headers?: Readonly<Record<string, string>>;
}>;

/** An endpoint's replies in order; the last one is repeated. */
export type Script = Readonly<{
  /** Whether the replies start again with each event, or only with the endpoint's first request. */
  per: "event" | "request";
  replies: readonly EndpointReply[];
}>;

export type EndpointHit = Readonly<{
  /** Ascending from 1, in the order of arrival. */
  n: number;
  at: number;
  /** Null while it has not been answered. */
  answeredAt: number | null;
  status: number | null;
  /** Requests under way at the endpoint when this one arrived, itself included. */
  inFlight: number;
  /** `webhook-id`, `webhook-attempt`, `webhook-timestamp` and `webhook-signature`. */
  event: string;
  attempt: number;
  timestamp: string;
  signature: string;
  body: string;
}>;

export type Hits = Readonly<{ hits: readonly EndpointHit[] }>;
