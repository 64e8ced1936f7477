/** The consumers of a polled destination, and how far each is behind. */
import type { Child, FC } from "hono/jsx";
import type { ConsumerList } from "../../features/polling/schema.ts";
import { usePage } from "./page.tsx";
import { LineTable, Section } from "./parts.tsx";

export const Consumers: FC<{ list: ConsumerList; children?: Child }> = ({ list: { data }, children }) => {
  const { now, f, t } = usePage();
  const { title, none, heads, orMore } = t.consumers;
  const timeOf = (at: string | null) => (at === null ? "–" : f.ago(Date.parse(at), now));
  const eventsOf = (events: number, isMore: boolean) => (isMore ? orMore(f.count(events)) : f.count(events));
  return (
    <Section id="consumers" title={title}>
      {children}
      <LineTable
        columns={[
          [heads.consumer, "main"],
          [heads.events],
          [heads.oldest],
          [heads.fetched, "wide"],
          [heads.committed, "wide"],
        ]}
        empty={none}
      >
        {data.map(({ name, lag, fetched_at, committed_at }) => (
          <tr>
            <td>{name}</td>
            <td>{eventsOf(lag.events, lag.is_more)}</td>
            <td>{lag.events === 0 ? "–" : f.duration(lag.seconds * 1000)}</td>
            <td class="wide">{timeOf(fetched_at)}</td>
            <td class="wide">{timeOf(committed_at)}</td>
          </tr>
        ))}
      </LineTable>
    </Section>
  );
};
