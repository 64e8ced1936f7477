/** The page of one destination. */
import type { FC } from "hono/jsx";
import { nameOf, shortUrl } from "./destination-table.tsx";
import { DoorHistory } from "./door-history.tsx";
import type { DoorWords } from "./door-words.ts";
import { atMost, countOf, decimalOf, spanOf } from "./figures.ts";
import { COUNTED, type Health } from "./health.ts";
import type { MessageLog } from "./message-log.ts";
import { Messages } from "./message-table.tsx";
import { Figure } from "./parts.tsx";
import { trafficOf } from "./traffic.ts";
import { TrafficChart, TrafficLegend } from "./traffic-chart.tsx";

type Props = Readonly<{ health: Health; log: MessageLog; now: number }>;

export const DestinationPage: FC<Props> = ({ health, log, now }) => {
  const { row, view, words } = health;
  const path = `/dashboard/destinations/${row.id}`;
  return (
    <>
      <section>
        <p class="crumb">
          <a href="/dashboard">Overview</a>
        </p>
        <h1 class="break">{nameOf(row)}</h1>
        <p class="lede break">
          {row.description !== null && `${shortUrl(row.url)} · `}
          {`${wantedTypes(row.eventTypes)} of tenant ${row.tenant} · `}
          <code>{row.id}</code>
        </p>
      </section>
      <DoorPanel words={words} />
      <Figures health={health} />
      <section aria-labelledby="traffic">
        <div class="head">
          <h2 id="traffic">Attempts by the minute</h2>
          <TrafficLegend />
        </div>
        <TrafficChart bars={trafficOf([view], now)} />
      </section>
      <div class="columns">
        <DoorHistory history={view?.history ?? []} now={now} />
      </div>
      <Messages path={path} log={log} now={now} />
    </>
  );
};

/** The state is announced when it changes; the countdown is not, which would never stop talking. */
const DoorPanel: FC<{ words: DoorWords }> = ({ words }) => (
  <section class={`door tone-${words.tone}`} aria-label="The door">
    <p>
      <strong>{words.says}</strong>
      {words.because !== undefined && `: ${words.because}.`}
      {words.because === undefined && "."}
    </p>
    {words.hint !== undefined && <p>{words.hint}</p>}
    <output class="hidden">{words.short}</output>
  </section>
);

const Figures: FC<{ health: Health }> = ({ health: { row, view, backlog } }) => (
  <section aria-label="At this moment">
    <dl class="figures">
      <Figure name="In flight" value={countOf(view?.inFlight ?? 0)} unit={`of ${row.maxConcurrency}`} />
      <Figure name="Allowed at once" value={countOf(view?.window ?? 0)} />
      <Figure name="Waiting" value={atMost(backlog.waiting, COUNTED)} />
      <Figure name="Dead" value={atMost(backlog.dead, COUNTED)} tone={backlog.dead > 0 ? "bad" : undefined} />
      <Figure
        name="Retries per first"
        value={decimalOf(view?.traffic.retryRatio ?? 0)}
        tone={view?.traffic.storm ? "bad" : undefined}
      />
      <Figure name="An attempt takes" value={view && view.tookMs > 0 ? spanOf(view.tookMs) : "–"} />
    </dl>
  </section>
);

function wantedTypes(types: readonly string[] | null): string {
  return types === null ? "All events" : types.join(", ");
}
