/** What `npm run verify` and its receiver exchange over HTTP, as JSON. Times are epoch ms, by the receiver's clock. */

export type EndpointReply = Readonly<{
  status: number;
  afterMs?: number;
  headers?: Readonly<Record<string, string>>;
}>;

/** An endpoint's answers: the replies in turn, the last one again and again. */
export type Script = Readonly<{
  /** Whether each event begins with the first reply, or the endpoint's first request does. */
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
  /** Requests that were under way at the endpoint when this one had arrived, itself included. */
  inFlight: number;
  /** `webhook-id`, `webhook-attempt`, `webhook-timestamp` and `webhook-signature`. */
  event: string;
  attempt: number;
  timestamp: string;
  signature: string;
  body: string;
}>;

export type Hits = Readonly<{ hits: readonly EndpointHit[] }>;
