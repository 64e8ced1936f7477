/** The keys of an ordered destination in which deliveries wait for the first one. */
import type { FC } from "hono/jsx";
import type { BlockedKeyPage } from "../../../features/deliveries/ordering.ts";
import { type BlockedKey, BlockedKeyTable } from "../../ui/blocked-keys.tsx";
import { atMost } from "../../ui/format.ts";
import { Press, Section } from "../../ui/parts.tsx";

/** @param mayRepair whether the visitor may skip a delivery that holds its key */
export const BlockedKeys: FC<{ page: BlockedKeyPage; mayRepair: boolean }> = ({ page, mayRepair }) => (
  <Section id="blocked-keys" title="Blocked keys">
    {page.keys.length === 0 ? (
      <p class="empty">
        No key is blocked. Where a delivery holds up later ones of its key, it appears here.
      </p>
    ) : (
      <BlockedKeyTable
        page={page}
        heads={{ first: "First event", state: "State", behind: "Waiting behind it" }}
        pathOf={({ event_id }) => `/dashboard/events/${event_id}`}
        stateOf={({ state, held }) => (held ? "dead, holds the key" : state)}
        atMost={atMost}
        action={mayRepair ? { title: "Skip", of: skipButton } : undefined}
      />
    )}
    {page.next !== undefined && <p class="hint">More keys were not looked at: the API lists all of them.</p>}
  </Section>
);

const skipButton = ({ delivery_id }: BlockedKey) => (
  <Press action={`/dashboard/deliveries/${delivery_id}/skip`} label="Skip" />
);
