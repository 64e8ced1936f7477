/** The keys of an ordered endpoint in which deliveries wait for the first one; nothing where there is none. */
import type { FC } from "hono/jsx";
import type { BlockedKeyPage } from "../../features/deliveries/ordering.ts";
import { BlockedKeyTable } from "../ui/blocked-keys.tsx";
import type { Look } from "./look.ts";
import { SectionHead } from "./parts.tsx";

export const PortalBlockedKeys: FC<{ look: Look; page: BlockedKeyPage }> = ({ look: { t, f }, page }) =>
  page.keys.length === 0 ? null : (
    <section aria-labelledby="blocked-keys">
      <SectionHead id="blocked-keys" title={t.blocked.title} />
      <p class="hint">{t.blocked.text}</p>
      <BlockedKeyTable
        page={page}
        heads={{ first: t.blocked.first, state: t.log.state, behind: t.blocked.behind }}
        pathOf={({ delivery_id }) => `/portal/deliveries/${delivery_id}`}
        stateOf={({ state, held }) => (held ? t.blocked.held : t.log.states[state])}
        atMost={f.atMost}
      />
    </section>
  );
