/** The keys of an ordered destination in which deliveries wait, with the first delivery of each, which they wait for. */
import type { FC } from "hono/jsx";
import type { BlockedKeyPage } from "../../../features/deliveries/ordering.ts";
import { deliveryId, eventId } from "../../../ids.ts";
import { storedStatus } from "../../../store/delivery.ts";
import { type BlockedLine, COUNTED_BEHIND } from "../../../store/lines.ts";
import { atMost } from "../../ui/format.ts";
import { Section } from "../../ui/parts.tsx";

/** @param mayRepair whether the visitor may skip a delivery that holds its key */
export const BlockedKeys: FC<{ page: BlockedKeyPage; mayRepair: boolean }> = ({ page, mayRepair }) => (
  <Section id="blocked-keys" title="Blocked keys">
    {page.keys.length === 0 ? (
      <p class="empty">
        No key is blocked. Where a delivery holds up later ones of its key, it appears here.
      </p>
    ) : (
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">First event</th>
              <th scope="col">State</th>
              <th scope="col" class="num">
                Waiting behind it
              </th>
              {mayRepair && <td />}
            </tr>
          </thead>
          <tbody>
            {page.keys.map((key) => (
              <Key of={key} mayRepair={mayRepair} />
            ))}
          </tbody>
        </table>
      </div>
    )}
    {page.next !== undefined && <p class="hint">More keys were not looked at: the API lists all of them.</p>}
  </Section>
);

const Key: FC<{ of: BlockedLine; mayRepair: boolean }> = ({ of: { head, isHeld, behind }, mayRepair }) => {
  const event = eventId(head.eventId);
  return (
    <tr>
      <td>
        <a href={`/dashboard/events/${event}`}>{event}</a>
      </td>
      <td>{isHeld ? "dead, holds the key" : "state" in head ? storedStatus(head).state : "queued"}</td>
      <td class="num">{atMost(behind, COUNTED_BEHIND)}</td>
      {mayRepair && (
        <td>
          {isHeld && (
            <form
              method="post"
              action={`/dashboard/deliveries/${deliveryId(head.eventId, head.destinationId)}/skip`}
            >
              <button type="submit">Skip</button>
            </form>
          )}
        </td>
      )}
    </tr>
  );
};
