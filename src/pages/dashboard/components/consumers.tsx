/** The consumers of a polled destination, and how far each is behind. */
import type { FC } from "hono/jsx";
import type { ConsumerList } from "../../../features/polling/schema.ts";
import { ConsumerTable } from "../../ui/consumer-table.tsx";
import { agoOf, countOf, durationOf } from "../../ui/format.ts";
import { Section } from "../../ui/parts.tsx";

const HEADS = {
  consumer: "Consumer",
  events: "Not committed",
  oldest: "Oldest",
  fetched: "Last fetch",
  committed: "Last commit",
};

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
      <ConsumerTable
        consumers={data}
        heads={HEADS}
        eventsOf={(events, isMore) => `${countOf(events)}${isMore ? " or more" : ""}`}
        durationOf={durationOf}
        agoOf={(at) => agoOf(at, now)}
      />
    )}
  </Section>
);
