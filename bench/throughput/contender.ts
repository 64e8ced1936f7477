/**
 * A contender takes events over HTTP and delivers each, signed, to an endpoint. All contenders take the same events, so
 * that they can share one load generator.
 */

export type Contender = Readonly<{
  name: string;
  /** Versions and settings that a reader needs to judge the figures. */
  settings: string;
  /** Whether it sends without a signature. */
  isUnsigned?: boolean;
  /** Why it cannot run on this machine; undefined when it can. */
  missing: () => string | undefined;
  /** Starts it, with an endpoint for each type of event: `bench.0` goes to the first, and so on. */
  start: (endpoints: readonly string[]) => Promise<Running>;
}>;

export type PostedEvent = Readonly<{ type: string; data: unknown }>;
export type PostRequest = Readonly<{ path: string; body: unknown }>;

export type Running = Readonly<{
  url: string;
  headers: Readonly<Record<string, string>>;
  /**
   * Makes the request that posts these events. Without it, the contender takes POST /v1/events and POST
   * /v1/events/batch.
   */
  request?: (events: readonly PostedEvent[]) => PostRequest;
  /** Its processes, without their children; empty if they are not known. */
  pids: readonly number[];
  stop: () => Promise<void>;
}>;

/** The secret that every contender signs with. */
export const SECRET = `whsec_${Buffer.from("a secret of the benchmark, 32 b.").toString("base64")}`;
export const KEY = "bench-key-0123456789";

/** Attempts in flight at one endpoint, for every contender. */
export const PER_ENDPOINT = 10;

export function typeOf(endpoint: number): string {
  return `bench.${endpoint}`;
}
