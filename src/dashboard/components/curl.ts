/**
 * An event as a command that sends it the way an attempt would, signed at this moment: to see with one's
 * own eyes what a receiver makes of it. The destination's own headers are left out: they may be secret.
 */

import type { FoundDelivery } from "../../db/delivery-list.ts";
import type { Destination } from "../../db/destinations.ts";
import { signerFor } from "../../delivery/signature.ts";
import { eventId } from "../../ids.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";

// §§ Text for a POSIX shell, in commands that people copy.

/** Between single quotes everything is itself; a single quote has to step outside. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

type Event = Readonly<{ id: number; body: string }>;

/** Shown for so many destinations at most. */
const MOST = 5;

/** By destination. One whose secret cannot be opened is left out. */
export async function curlRequests(
  services: Services,
  event: Event,
  deliveries: readonly FoundDelivery[],
): Promise<ReadonlyMap<string, string>> {
  const living = deliveries.flatMap(({ destination }) =>
    destination?.deletedAt === null ? [destination] : [],
  );
  const requests = living.slice(0, MOST).map(async (destination) => {
    const command = await commandFor(services, event, destination);
    return command === undefined ? [] : [[destination.id, command] as const];
  });
  return new Map((await Promise.all(requests)).flat());
}

async function commandFor({ vault, now, log }: Services, event: Event, destination: Destination) {
  try {
    const at = now();
    const sign = await signerFor(vault, destination, at);
    const headers = {
      "content-type": "application/json",
      ...(await sign(eventId(event.id), event.body, at)),
    };
    return asCurl(destination.url, headers, event.body);
  } catch (error) {
    log({ what: "secret_unreadable", destination: destination.id, error: faultOf(error) });
    return undefined;
  }
}

function asCurl(url: string, headers: Readonly<Record<string, string>>, body: string): string {
  const lines = Object.entries(headers).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`);
  return [`curl ${quoted(url)}`, ...lines, `  --data-raw ${quoted(body)}`].join(" \\\n");
}
