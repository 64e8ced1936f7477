/** The deliveries of one destination on its page, with their states as tabs; those that are selected can be repaired. */
import type { FC } from "hono/jsx";
import { type LogPage, LogTable, logStates } from "../../ui/delivery-log.tsx";
import { Pickable, RepairLinks } from "./repairs.tsx";

type Props = Readonly<{
  path: string;
  /** The id of the destination. */
  id: string;
  page: LogPage;
  mayRepair: boolean;
  now: number;
}>;

export const DestinationLog: FC<Props> = ({ path, id, page, mayRepair, now }) => {
  const { state, entries } = page;
  const query = new URLSearchParams({ ...(state !== "all" && { state }), destination_id: id });
  const mayPick = mayRepair && entries.length > 0;
  return (
    <section aria-labelledby="deliveries">
      <div class="head">
        <h2 id="deliveries">Deliveries</h2>
        <StateTabs path={path} current={state} />
      </div>
      {entries.length === 0 ? (
        <p class="empty">{emptyText(page)}</p>
      ) : (
        <Pickable query={query} isOn={mayPick}>
          <LogTable entries={entries} now={now} mayPick={mayPick} />
        </Pickable>
      )}
      <Pager path={path} page={page} />
      {mayPick && <RepairLinks query={query} />}
    </section>
  );
};

const StateTabs: FC<{ path: string; current: LogPage["state"] }> = ({ path, current }) => (
  <nav class="tabs" aria-label="States">
    {logStates.map((state) => (
      <a
        href={`${path}${state === "all" ? "" : `?state=${state}`}#deliveries`}
        {...(state === current && { "aria-current": "true" })}
      >
        {state.charAt(0).toUpperCase() + state.slice(1)}
      </a>
    ))}
  </nav>
);

const Pager: FC<Pick<Props, "path" | "page">> = ({ path, page: { state, isFirst, next } }) => {
  const query = (before?: string) =>
    `${path}?${new URLSearchParams({ ...(state !== "all" && { state }), ...(before && { before }) })}#deliveries`;
  if (isFirst && next === undefined) return null;
  return (
    <p class="pager">
      {!isFirst && <a href={query()}>Newest</a>}
      {next !== undefined && <a href={query(next)}>Older</a>}
    </p>
  );
};

function emptyText({ state, isFirst }: LogPage): string {
  if (!isFirst) return "No older deliveries.";
  if (state === "all")
    return "No attempts yet. The next event of a type that this destination takes appears here: post one, or send a test event to see whether the receiver answers.";
  if (state === "queued") return "No deliveries are queued for their first attempt.";
  return `No deliveries are ${state}.`;
}
