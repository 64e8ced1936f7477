/** Parts of a destination's page that dashboard and portal both show. */
import type { Child, FC } from "hono/jsx";
import { isPolled } from "../../delivery/kinds/sending.ts";
import { type BlockedKeyPage, getBlockedKeys } from "../../features/deliveries/ordering.ts";
import { blockedKeyView } from "../../features/deliveries/schema.ts";
import type { ConsumerList } from "../../features/polling/schema.ts";
import { getConsumers } from "../../features/polling/service.ts";
import type { Caller } from "../../features/service.ts";
import type { Destination } from "../../store/destination.ts";
import { COUNTED_BEHIND } from "../../store/lines.ts";
import { listReplays } from "../../store/replays.ts";
import { logStates, readLog } from "./delivery-log.tsx";
import type { Query } from "./format.ts";
import { usePage } from "./page.tsx";
import { LineTable, Section } from "./parts.tsx";
import { readTransformFaults } from "./transform-page.tsx";

const REPLAYS_SHOWN = 3;

/**
 * Reads the parts. One is undefined if the destination has none, or it cannot be read.
 * @param tenant the shown tenant; undefined: all
 * @param query of the page: selects the listed deliveries
 */
export async function readParts(
  caller: Caller,
  row: Destination,
  tenant: string | undefined,
  { state, before }: Query,
) {
  const { id } = row;
  const shown = logStates.find((name) => name === state) ?? "all";
  const latest = { tenant, destinationId: id, state: undefined, before: undefined, limit: REPLAYS_SHOWN };
  const [deliveries, { replays }, blocked, consumers, transformFaults] = await Promise.all([
    readLog(caller, row, { state: shown, before }),
    listReplays(caller.services, latest),
    row.ordering === null ? undefined : getBlockedKeys(caller, { id }),
    isPolled(row) ? getConsumers(caller, id) : undefined,
    readTransformFaults(caller, row),
  ]);
  return {
    deliveries,
    replays,
    blocked: blocked?.kind === "ok" ? blocked.value : undefined,
    consumers: consumers?.kind === "ok" ? consumers.value : undefined,
    transformFaults,
  };
}

type BlockedProps = Readonly<{
  page: BlockedKeyPage;
  /** For keys that are held. */
  action?: Readonly<{ title: string; of: (delivery: string) => Child }> | undefined;
}>;

/** The keys of an ordered destination in which deliveries wait, with the first delivery of each, which they wait for. */
export const BlockedKeys: FC<BlockedProps> = ({ page, action }) => {
  const { t, f, deliveryAt } = usePage();
  const { title, text, none, more, first, behind, held } = t.blocked;
  if (page.keys.length === 0 && none === undefined) return null;
  return (
    <Section id="blocked-keys" title={title}>
      {text && <p class="hint">{text}</p>}
      <LineTable
        rows={page.keys.map(blockedKeyView)}
        columns={[
          [
            first,
            "main",
            ({ event_id, delivery_id: id }) => <a href={deliveryAt({ id, event_id })}>{event_id}</a>,
            ({ event_id }) => event_id,
          ],
          [t.log.state, "state-cell", (key) => (key.held ? held : t.log.states[key.state]), true],
          [behind, "num", (key) => f.atMost(key.behind, COUNTED_BEHIND)],
          action && [
            <span class="hidden">{action.title}</span>,
            "num",
            (key) => key.held && action.of(key.delivery_id),
          ],
        ]}
        empty={none}
      />
      {page.next !== undefined && more && <p class="hint">{more}</p>}
    </Section>
  );
};

/** The consumers of a polled destination, and how far each is behind. */
export const Consumers: FC<{ list: ConsumerList; children?: Child }> = ({ list: { data }, children }) => {
  const { now, f, t } = usePage();
  const { title, none, heads, orMore } = t.consumers;
  const timeOf = (at: string | null) => (at === null ? "–" : f.ago(Date.parse(at), now));
  const eventsOf = (events: number, isMore: boolean) => (isMore ? orMore(f.count(events)) : f.count(events));
  return (
    <Section id="consumers" title={title}>
      {children}
      <LineTable
        rows={data}
        columns={[
          [heads.consumer, "main", ({ name }) => name],
          [heads.events, "", ({ lag }) => eventsOf(lag.events, lag.is_more)],
          [heads.oldest, "", ({ lag }) => (lag.events === 0 ? "–" : f.duration(lag.seconds * 1000))],
          [heads.fetched, "wide", ({ fetched_at }) => timeOf(fetched_at)],
          [heads.committed, "wide", ({ committed_at }) => timeOf(committed_at)],
        ]}
        empty={none}
      />
    </Section>
  );
};
