/** Blocked keys: the lines of a destination in which deliveries wait for the first one, and how a held one goes on. */
import { conflict, missing, ok } from "../../core/result.ts";
import { attemptWaiting } from "../../delivery/message-group.ts";
import { deliveryId } from "../../ids.ts";
import { allOf } from "../../store/databases.ts";
import { findDestination } from "../../store/destinations.ts";
import { type BlockedLine, blockedLines, skipHeld } from "../../store/lines.ts";
import { service } from "../service.ts";
import { deliveryOf, shownDeliveries } from "./view.ts";

/** How far a list has got. */
type LinePosition = readonly [database: number, line: string];

export type BlockedKeyPage = Readonly<{ keys: readonly BlockedLine[]; next: LinePosition | undefined }>;

type LinesOf = Readonly<{ destination: string; cursor?: LinePosition | undefined }>;

/** The next blocked keys of a destination. It looks at a bounded number of keys: the page may be short, or empty. */
export const getBlockedKeys = service(
  { scope: "read", action: "read" },
  async ({ services, principal }, { destination: id, cursor = [0, ""] }: LinesOf) => {
    const destination = await findDestination(services.db, id, principal.tenant);
    if (destination === undefined) return missing("destination", id);
    const [database, after] = cursor;
    const all = allOf(services);
    const db = all[database];
    const page = db ? await blockedLines(db, id, after) : { lines: [], upto: undefined };
    const behind: LinePosition | undefined = database + 1 < all.length ? [database + 1, ""] : undefined;
    const next: LinePosition | undefined = page.upto === undefined ? behind : [database, page.upto];
    return ok<BlockedKeyPage>({ keys: page.lines, next });
  },
);

/** Lets the key of a dead delivery go on with its next one. The delivery stays dead. */
export const skipDelivery = service({ scope: "admin", role: "repair" }, async (call, id: string) => {
  const { services, changed } = call;
  const found = await deliveryOf(call, id);
  if (!found) return missing("delivery", id);
  const next = await skipHeld(services, found);
  if (next === undefined)
    return conflict("The delivery does not hold a key: it is not dead, or nothing waits for it");
  const name = deliveryId(found.eventId, found.destinationId);
  services.log({ what: "delivery_skipped", delivery: name, destination: found.destinationId });
  changed("delivery.skipped", { id: name, tenant: found.destination?.tenant ?? null });
  services.background(attemptWaiting(services, next));
  const [shown] = await shownDeliveries(call, [found]);
  return shown ? ok(shown) : missing("delivery", id);
});
