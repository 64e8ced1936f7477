/** The consumers of a polled destination, and how far each is behind. */
import type { FC } from "hono/jsx";
import type { ConsumerList } from "../../../features/polling/schema.ts";
import { agoOf, countOf, durationOf } from "../../ui/format.ts";
import { ColumnHeads, Section } from "../../ui/parts.tsx";

type Props = Readonly<{
  list: ConsumerList;
  now: number;
  /** The page of the destination's keys; undefined for those who may not see them. */
  keysAt: string | undefined;
}>;

export const Consumers: FC<Props> = ({ list: { data }, now, keysAt }) => (
  <Section id="consumers" title="Consumers">
    {keysAt !== undefined && (
      <p>
        <a href={keysAt}>Keys that poll this destination alone</a>
      </p>
    )}
    {data.length === 0 ? (
      <p class="empty">
        Nobody has fetched from this destination yet. A program needs a key with the scope <code>poll</code>.
      </p>
    ) : (
      <table class="lines">
        <ColumnHeads
          columns={[
            ["Consumer", "main"],
            ["Not committed"],
            ["Oldest"],
            ["Last fetch", "wide"],
            ["Last commit", "wide"],
          ]}
        />
        <tbody>
          {data.map(({ name, lag, fetched_at, committed_at }) => (
            <tr>
              <td>{name}</td>
              <td>{`${countOf(lag.events)}${lag.is_more ? " or more" : ""}`}</td>
              <td>{lag.events === 0 ? "–" : durationOf(lag.seconds * 1000)}</td>
              <td class="wide">{fetched_at === null ? "–" : agoOf(Date.parse(fetched_at), now)}</td>
              <td class="wide">{committed_at === null ? "–" : agoOf(Date.parse(committed_at), now)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    )}
  </Section>
);
