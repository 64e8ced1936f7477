/** The keys of an ordered endpoint in which deliveries wait, with the first delivery of each, which they wait for. */
import type { FC } from "hono/jsx";
import type { BlockedKeyPage } from "../../features/deliveries/ordering.ts";
import { deliveryId, eventId } from "../../ids.ts";
import { storedStatus } from "../../store/delivery.ts";
import { COUNTED_BEHIND } from "../../store/lines.ts";
import { ColumnHeads } from "../ui/parts.tsx";
import type { Look } from "./look.ts";
import { SectionHead } from "./parts.tsx";

export const PortalBlockedKeys: FC<{ look: Look; page: BlockedKeyPage }> = ({ look: { t, f }, page }) =>
  page.keys.length === 0 ? null : (
    <section aria-labelledby="blocked-keys">
      <SectionHead id="blocked-keys" title={t.blocked.title} />
      <p class="hint">{t.blocked.text}</p>
      <table class="lines">
        <ColumnHeads
          columns={[
            [t.blocked.first, "main"],
            [t.log.state, "state-cell"],
            [t.blocked.behind, "num"],
          ]}
        />
        <tbody>
          {page.keys.map(({ head, isHeld, behind }) => (
            <tr>
              <td class="clip">
                <a class="name" href={`/portal/deliveries/${deliveryId(head.eventId, head.destinationId)}`}>
                  {eventId(head.eventId)}
                </a>
              </td>
              <td class="clip state-cell">
                {isHeld
                  ? t.blocked.held
                  : t.log.states["state" in head ? storedStatus(head).state : "queued"]}
              </td>
              <td class="num">{f.atMost(behind, COUNTED_BEHIND)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
