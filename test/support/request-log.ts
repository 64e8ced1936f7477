/**
 * A log of all requests to receivers, their answers, and whether the delivery had ended by then. It reads the database
 * directly, not through the calls that may fail, so it sees an end of which the sender does not know.
 */

import type { DeliveryKey } from "../../src/core/bundle.ts";
import { eventNumber } from "../../src/ids.ts";
import type { Services } from "../../src/services.ts";
import { rowsOfAll } from "./databases.ts";
import { hasEndedSql } from "./ended.ts";
import { textOf } from "./utf8.ts";

/** One request; `status` is undefined until it is answered. */
export type Sent = { readonly key: string; readonly at: number; readonly body: string; status?: number };

export type RequestLog = Readonly<{
  /** Services that log their requests. */
  services: Services;
  /** Every request so far. */
  sent: readonly Sent[];
  /** Requests for deliveries that had ended in D1. */
  afterEnd: readonly string[];
  /** Requests made before a Retry-After had passed, and how much too early each was. */
  early: readonly string[];
  /** Drops all holds: an invocation died, and with it the Retry-After that it got. */
  forgetHolds: () => void;
  /** Drops the hold of a destination, as resuming it does. Deliveries keep their own retry times. */
  forgetHoldOf: (destination: string) => void;
}>;

export function keyOf({ eventId, destinationId }: DeliveryKey): string {
  return `${eventId} ${destinationId}`;
}

/** Other leases learn of a hold within a second plus round trips; requests under way continue. */
const HOLD_DELAY_MS = 6_000;

/** Destinations must have the URLs that `urlOf` gives them. */
export function logRequests(services: Services): RequestLog {
  const sent: Sent[] = [];
  const afterEnd: string[] = [];
  let early: readonly string[] = [];
  const holds = new Map<string, Readonly<{ from: number; until: number }>>();

  function checkHold(what: string, spareMs: number): void {
    const hold = holds.get(what);
    const now = services.now();
    if (hold && now >= hold.from + spareMs && now < hold.until)
      early = [...early, `${what}: ${hold.until - now} ms`];
  }

  function noteHold(what: string, seconds: number): void {
    const from = services.now();
    const until = from + seconds * 1000;
    if (until > (holds.get(what)?.until ?? 0)) holds.set(what, { from, until });
  }

  async function fetch(input: RequestInfo, init: RequestInit = {}): Promise<Response> {
    const eventId = eventNumber(new Headers(init.headers).get("webhook-id") ?? "") ?? 0;
    const destination = `dst_${new URL(String(input)).hostname.split(".")[0]}`;
    const delivery = { eventId, destinationId: destination };
    const request: Sent = { key: keyOf(delivery), at: services.now(), body: textOf(init.body) };
    if (await hasEnded(delivery)) afterEnd.push(request.key);
    checkHold(request.key, 0);
    checkHold(destination, HOLD_DELAY_MS);
    sent.push(request);
    const response = await services.fetch(input, init);
    request.status = response.status;
    const asked = [429, 503].includes(response.status) ? Number(response.headers.get("retry-after")) : 0;
    if (asked > 0) for (const what of [request.key, destination]) noteHold(what, asked);
    return response;
  }
  return {
    services: { ...services, fetch: fetch as typeof services.fetch },
    sent,
    afterEnd,
    get early() {
      return early;
    },
    forgetHolds: () => {
      holds.clear();
      early = [];
    },
    forgetHoldOf: (destination) => void holds.delete(destination),
  };
}

async function hasEnded({ eventId, destinationId }: DeliveryKey): Promise<boolean> {
  const rows = await rowsOfAll<{ ended: number }>(
    `SELECT ${hasEndedSql("?1", "?2")} AS ended`,
    eventId,
    destinationId,
  );
  return rows.some(({ ended }) => ended === 1);
}
