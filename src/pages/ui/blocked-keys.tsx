/** The keys of an ordered destination in which deliveries wait, with the first delivery of each, which they wait for. */
import type { Child, FC } from "hono/jsx";
import type { BlockedKeyPage } from "../../features/deliveries/ordering.ts";
import { blockedKeyView } from "../../features/deliveries/schema.ts";
import { COUNTED_BEHIND } from "../../store/lines.ts";
import { usePage } from "./page.tsx";
import { ClippedCell, LineTable, Section } from "./parts.tsx";

type Props = Readonly<{
  page: BlockedKeyPage;
  /** For keys that are held. */
  action?: Readonly<{ title: string; of: (delivery: string) => Child }> | undefined;
}>;

export const BlockedKeys: FC<Props> = ({ page, action }) => {
  const { t, f, deliveryAt } = usePage();
  const { title, text, none, more, first, behind, held } = t.blocked;
  if (page.keys.length === 0 && none === undefined) return null;
  return (
    <Section id="blocked-keys" title={title}>
      {text && <p class="hint">{text}</p>}
      <LineTable
        columns={[
          [first, "main"],
          [t.log.state, "state-cell"],
          [behind, "num"],
          ...(action ? [[<span class="hidden">{action.title}</span>, "num"] as const] : []),
        ]}
        empty={none}
      >
        {page.keys.map(blockedKeyView).map(({ event_id, delivery_id: id, ...key }) => {
          const state = key.held ? held : t.log.states[key.state];
          return (
            <tr>
              <ClippedCell text={event_id}>
                <a href={deliveryAt({ id, event_id })}>{event_id}</a>
              </ClippedCell>
              <ClippedCell text={state} of="state-cell">
                {state}
              </ClippedCell>
              <td class="num">{f.atMost(key.behind, COUNTED_BEHIND)}</td>
              {action && <td class="num">{key.held && action.of(id)}</td>}
            </tr>
          );
        })}
      </LineTable>
      {page.next !== undefined && more && <p class="hint">{more}</p>}
    </Section>
  );
};
