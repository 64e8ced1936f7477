/**
 * The log of deliveries across destinations, with the filters of the API, and its live tail. The tail's rows are rendered
 * here, so that the page's script only puts them in their places.
 */

import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { deliveryQuery, deliveryStates } from "../../../features/deliveries/schema.ts";
import { getDeliveryLog, placesOf } from "../../../features/deliveries/service.ts";
import { LAST_EVENT_ID, STREAM_HEADERS, tailDeliveries } from "../../../features/deliveries/tail.ts";
import { storedDelivery } from "../../../features/deliveries/view.ts";
import { encodeCursor } from "../../../http/parameters.ts";
import { answerOf } from "../../../http/problems.ts";
import type { TailedDelivery } from "../../../store/delivery-tail.ts";
import { type LogEntry, LogRow, LogTable } from "../../ui/delivery-log.tsx";
import { placeOf } from "../../ui/destination-table.tsx";
import { deliveryFilters } from "../../ui/form-fields.ts";
import { RefusedNotice } from "../../ui/parts.tsx";
import { attemptWith, statusOfRefused } from "../../ui/services.ts";
import { showPage } from "../components/layout.tsx";
import { callerOnPage, callerWithinTenant, type DashboardEnv } from "../session.ts";

const PATH = "/dashboard/deliveries";
const TAIL = `${PATH}/tail`;
const PAGE_SIZE = "25";

/** The filters, with the names that the API has for them. `tenant` is for whoever is bound to none. */
const filters = Object.entries(deliveryFilters).map(([name, [, label]]) => ({ name, label }));

/** The filters that the tail has too. */
const TAILED = ["tenant", "destination_id", "type"];
/** Those by which an index leads to deliveries. Without them the newest events come first. */
const INDEXED = ["state", "status", "reason"];

export function registerDeliveriesPage(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const services = c.get("services");
    const { tenant, principal } = c.get("visitor");
    const mayNameTenant = principal.tenant === undefined;
    const query = queryIn({ ...c.req.query(), tenant }, mayNameTenant);
    const cursor = c.req.query("cursor");
    const order = [...query.keys()].some((name) => INDEXED.includes(name)) ? "destination" : "event";
    const asked = {
      ...Object.fromEntries(query),
      order,
      limit: PAGE_SIZE,
      ...(cursor && { cursor }),
    };
    const caller = callerOnPage(c);
    const log = await attemptWith(caller, deliveryQuery, asked, (input) => getDeliveryLog(caller, input));
    const { entries, next } = log.kind === "ok" ? log.value : { entries: [], next: undefined };
    return showPage(
      c,
      { title: "Deliveries", place: "deliveries" },
      <Deliveries
        query={query}
        entries={entries.map((entry) => ({ ...entry, destination: placeOf(entry.destination) }))}
        isFirst={cursor === undefined}
        next={next ? encodeCursor(placesOf(next)) : null}
        refused={log.kind === "ok" ? undefined : log}
        follow={c.req.query("follow") !== undefined && cursor === undefined && log.kind === "ok"}
        showTenant={mayNameTenant}
        now={services.now()}
      />,
      log.kind === "ok" ? 200 : statusOfRefused(log),
    );
  });

  app.get(TAIL, async (c) => {
    const services = c.get("services");
    const { tenant, principal } = c.get("visitor");
    const mayNameTenant = principal.tenant === undefined;
    const query = queryIn({ ...c.req.query(), tenant }, mayNameTenant);
    const tailed = await tailDeliveries(callerWithinTenant(c), {
      destinationId: query.get("destination_id") ?? undefined,
      type: query.get("type") ?? undefined,
      last: c.req.header(LAST_EVENT_ID),
      render: (one) => rowOf(one, services.now(), mayNameTenant),
    });
    return tailed.kind === "ok" ? c.body(tailed.value, 200, STREAM_HEADERS) : answerOf(tailed);
  });
}

/** The filters that are given, without empty fields. */
function queryIn(
  given: Readonly<Record<string, string | undefined>>,
  mayNameTenant: boolean,
): URLSearchParams {
  const known = ["state", ...filters.map(({ name }) => name)];
  const fields = known.flatMap((name) => {
    const value = given[name]?.trim() ?? "";
    return value === "" || (name === "tenant" && !mayNameTenant) ? [] : [[name, value]];
  });
  return new URLSearchParams(fields);
}

async function rowOf({ found, event }: TailedDelivery, now: number, showTenant: boolean): Promise<string> {
  const entry = { delivery: storedDelivery(found, now), event, destination: placeOf(found.destination) };
  return String(await (<LogRow entry={entry} now={now} showTenant={showTenant} />));
}

type Props = Readonly<{
  query: URLSearchParams;
  entries: readonly LogEntry[];
  isFirst: boolean;
  /** The cursor of the next page. */
  next: string | null;
  refused: Refused | undefined;
  follow: boolean;
  showTenant: boolean;
  now: number;
}>;

const Deliveries: FC<Props> = ({ query, entries, isFirst, next, refused, follow, showTenant, now }) => (
  <>
    <section>
      <h1>Deliveries</h1>
      <p class="lede">
        Across all destinations, the newest event first. With a state, a status code or a reason they are in
        the order of their destinations.
      </p>
    </section>
    {refused && <RefusedNotice refused={refused} fields={deliveryFilters} />}
    <Filters query={query} showTenant={showTenant} />
    <section aria-labelledby="log">
      <div class="head">
        <h2 id="log">Log</h2>
        {isFirst && <FollowLink query={query} follow={follow} />}
      </div>
      {follow && <Tail query={query} />}
      {entries.length === 0 && !follow ? (
        <p class="empty">
          {next === null ? "No deliveries match." : "None here so far: look further back with Older."}
        </p>
      ) : (
        <LogTable entries={entries} now={now} showTenant={showTenant} />
      )}
      <p class="pager">
        {!isFirst && <a href={at(query)}>Newest</a>}
        {next !== null && <a href={at(query, { cursor: next })}>Older</a>}
      </p>
    </section>
  </>
);

function at(query: URLSearchParams, more: Readonly<Record<string, string>> = {}, path = PATH): string {
  const all = new URLSearchParams({ ...Object.fromEntries(query), ...more }).toString();
  return all === "" ? path : `${path}?${all}`;
}

const FollowLink: FC<Pick<Props, "query" | "follow">> = ({ query, follow }) =>
  follow ? (
    <a class="button" href={at(query)}>
      Stop following
    </a>
  ) : (
    <a class="button" href={at(query, { follow: "1" })}>
      Follow live
    </a>
  );

/** The script puts rows into the table that follows, and says here how it goes. */
const Tail: FC<Pick<Props, "query">> = ({ query }) => {
  const tailed = new URLSearchParams([...query].filter(([name]) => TAILED.includes(name)));
  return (
    <>
      <output class="soft small" data-tail={at(tailed, {}, TAIL)}>
        Following needs JavaScript.
      </output>
      {tailed.size < query.size && (
        <p class="soft small">New deliveries are filtered by tenant, destination and event type alone.</p>
      )}
    </>
  );
};

const Filters: FC<Pick<Props, "query" | "showTenant">> = ({ query, showTenant }) => (
  <form method="get" action={PATH} class="stack" aria-label="Filters">
    <div class="fields">
      <label>
        State
        <select name="state">
          <option value="">Any</option>
          {deliveryStates.map((state) => (
            <option value={state} selected={query.get("state") === state}>
              {state}
            </option>
          ))}
        </select>
      </label>
      {filters
        .filter(({ name }) => showTenant || name !== "tenant")
        .map(({ name, label }) => (
          <label>
            {label}
            <input name={name} value={query.get(name) ?? ""} autocomplete="off" spellcheck={false} />
          </label>
        ))}
    </div>
    <div class="actions">
      <button type="submit">Filter</button>
      {query.size > 0 && <a href={PATH}>Clear</a>}
    </div>
  </form>
);
