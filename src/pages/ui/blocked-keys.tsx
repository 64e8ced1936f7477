/** The keys of an ordered destination in which deliveries wait, with the first delivery of each, which they wait for. */
import type { Child, FC } from "hono/jsx";
import type { BlockedKeyPage } from "../../features/deliveries/ordering.ts";
import { blockedKeyView } from "../../features/deliveries/schema.ts";
import { COUNTED_BEHIND } from "../../store/lines.ts";
import { ClippedCell, LineTable } from "./parts.tsx";

export type BlockedKey = ReturnType<typeof blockedKeyView>;

type Props = Readonly<{
  page: BlockedKeyPage;
  heads: Readonly<{ first: string; state: string; behind: string }>;
  pathOf: (key: BlockedKey) => string;
  stateOf: (key: BlockedKey) => string;
  atMost: (n: number, most: number) => string;
  /** For keys that are held. */
  action?: Readonly<{ title: string; of: (key: BlockedKey) => Child }> | undefined;
}>;

export const BlockedKeyTable: FC<Props> = ({ page, heads, pathOf, stateOf, atMost, action }) => (
  <LineTable
    columns={[
      [heads.first, "main"],
      [heads.state, "state-cell"],
      [heads.behind, "num"],
      ...(action ? [[<span class="hidden">{action.title}</span>, "num"] as const] : []),
    ]}
  >
    {page.keys.map(blockedKeyView).map((key) => (
      <tr>
        <ClippedCell text={key.event_id}>
          <a href={pathOf(key)}>{key.event_id}</a>
        </ClippedCell>
        <ClippedCell text={stateOf(key)} of="state-cell">
          {stateOf(key)}
        </ClippedCell>
        <td class="num">{atMost(key.behind, COUNTED_BEHIND)}</td>
        {action && <td class="num">{key.held && action.of(key)}</td>}
      </tr>
    ))}
  </LineTable>
);
