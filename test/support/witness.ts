/**
 * Beside the receivers: what each delivery was sent and answered, and whether it had ended by then. It asks
 * the database itself, past everything that may fail, so it knows of an end that the sender may not know of.
 */

import type { DeliveryName } from "../../src/core/bundle.ts";
import type { DeliveryRow } from "../../src/db/schema.ts";
import { eventNumber } from "../../src/ids.ts";
import type { Services } from "../../src/services.ts";
import { rowsOfAll } from "./databases.ts";
import { hasEndedSql } from "./ended.ts";

/** One request as the receiver got it; `status` is undefined until it has answered. */
export type Sent = { readonly key: string; readonly at: number; readonly body: string; status?: number };

export type Witness = Readonly<{
  /** The services whose requests it sees. */
  services: Services;
  /** Every request so far. */
  sent: readonly Sent[];
  /** Requests made although D1 said by then that the delivery had ended. */
  afterEnd: readonly string[];
  /** Requests made earlier than the receiver had asked, each with how much. */
  early: readonly string[];
  /** An invocation has died: what it had been asked for, nobody knows. */
  forgetHolds: () => void;
}>;

export function keyOf({ event, destination }: DeliveryName): string {
  return `${event} ${destination}`;
}

export function keyOfRow({ eventId, destinationId }: DeliveryRow): string {
  return keyOf({ event: eventId, destination: destinationId });
}

/** Holders of other leases hear of a hold within a second and the round trips of that; what is under way goes on. */
const NEWS_MS = 6_000;

/** Destinations must have the URLs that `urlOf` gives them */
export function witnessOf(services: Services): Witness {
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
    const event = eventNumber(new Headers(init.headers).get("webhook-id") ?? "") ?? 0;
    const destination = `dst_${new URL(String(input)).hostname.split(".")[0]}`;
    const request: Sent = { key: keyOf({ event, destination }), at: services.now(), body: String(init.body) };
    if (await hasEnded({ event, destination })) afterEnd.push(request.key);
    checkHold(request.key, 0);
    checkHold(destination, NEWS_MS);
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
  };
}

async function hasEnded({ event, destination }: DeliveryName): Promise<boolean> {
  const rows = await rowsOfAll<{ ended: number }>(
    `SELECT ${hasEndedSql("?1", "?2")} AS ended`,
    event,
    destination,
  );
  return rows.some(({ ended }) => ended === 1);
}
