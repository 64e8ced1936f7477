/** Blocked keys: the lines of a destination in which deliveries wait for the first one, and how a held one continues. */
import { conflict, ok } from "../../core/result.ts";
import { attemptWaiting } from "../../delivery/message-group.ts";
import { deliveryId } from "../../ids.ts";
import { allOf } from "../../store/databases.ts";
import { type BlockedLine, blockedLines, skipHeld } from "../../store/lines.ts";
import { destinationService } from "../destinations/one.ts";
import { deliveryService, shownDelivery } from "./view.ts";

/** The position that a list has reached. */
type LinePosition = readonly [database: number, line: string];

export type BlockedKeyPage = Readonly<{ keys: readonly BlockedLine[]; next: LinePosition | undefined }>;

type LinesOf = Readonly<{ id: string; cursor?: LinePosition | undefined }>;

/** The next blocked keys of a destination. It reads a bounded number of keys: the page may be short, or empty. */
export const getBlockedKeys = destinationService(
  { scope: "read", action: "read" },
  async ({ services }, _, { id, cursor = [0, ""] }: LinesOf) => {
    const [database, after] = cursor;
    const all = allOf(services);
    const db = all[database];
    const page = db ? await blockedLines(db, id, after) : { lines: [], upto: undefined };
    const behind: LinePosition | undefined = database + 1 < all.length ? [database + 1, ""] : undefined;
    const next: LinePosition | undefined = page.upto === undefined ? behind : [database, page.upto];
    return ok<BlockedKeyPage>({ keys: page.lines, next });
  },
);

/** Lets the key of a dead delivery continue with its next one. The delivery stays dead. */
export const skipDelivery = deliveryService({ scope: "admin", role: "repair" }, async (call, found) => {
  const { services, changed } = call;
  const next = await skipHeld(services, found);
  if (next === undefined)
    return conflict("The delivery does not hold a key: it is not dead, or nothing waits for it");
  const name = deliveryId(found.eventId, found.destinationId);
  services.log({ what: "delivery_skipped", delivery: name, destination: found.destinationId });
  changed("delivery.skipped", { id: name, tenant: found.destination?.tenant ?? null });
  services.background(attemptWaiting(services, next));
  return ok(await shownDelivery(call, found));
});
