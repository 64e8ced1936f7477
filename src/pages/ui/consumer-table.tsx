/** The consumers of a polled destination, and how far each is behind. */
import type { FC } from "hono/jsx";
import type { ConsumerList } from "../../features/polling/schema.ts";
import { LineTable } from "./parts.tsx";

type Props = Readonly<{
  consumers: ConsumerList["data"];
  heads: Readonly<{ consumer: string; events: string; oldest: string; fetched: string; committed: string }>;
  /** A number of events, and whether there are more. */
  eventsOf: (events: number, isMore: boolean) => string;
  durationOf: (ms: number) => string;
  agoOf: (at: number) => string;
}>;

export const ConsumerTable: FC<Props> = ({ consumers, heads, eventsOf, durationOf, agoOf }) => {
  const timeOf = (at: string | null) => (at === null ? "–" : agoOf(Date.parse(at)));
  return (
    <LineTable
      columns={[
        [heads.consumer, "main"],
        [heads.events],
        [heads.oldest],
        [heads.fetched, "wide"],
        [heads.committed, "wide"],
      ]}
    >
      {consumers.map(({ name, lag, fetched_at, committed_at }) => (
        <tr>
          <td>{name}</td>
          <td>{eventsOf(lag.events, lag.is_more)}</td>
          <td>{lag.events === 0 ? "–" : durationOf(lag.seconds * 1000)}</td>
          <td class="wide">{timeOf(fetched_at)}</td>
          <td class="wide">{timeOf(committed_at)}</td>
        </tr>
      ))}
    </LineTable>
  );
};
