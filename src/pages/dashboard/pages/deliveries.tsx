/**
 * The log of deliveries across destinations, with the filters of the API, and its live tail. The tail's rows are rendered
 * here, so that the page's script only puts them in their places.
 */

import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { type DeliveryJson, deliveryStates, showStored } from "../../../features/deliveries/routes.ts";
import { LAST_EVENT_ID, STREAM_HEADERS, tailStream } from "../../../features/deliveries/tail.ts";
import { apiPath, withQuery } from "../../../http/internal-path.ts";
import { eventNumber } from "../../../ids.ts";
import type { Services } from "../../../services.ts";
import type { TailedDelivery } from "../../../store/delivery-tail.ts";
import { type Destination, destinationsByIds } from "../../../store/destinations.ts";
import { eventNames } from "../../../store/events.ts";
import { DeliveryRow, DeliveryTable, type LogEntry } from "../../ui/delivery-log.tsx";
import { nameOf } from "../../ui/destination-table.tsx";
import { deliveryFilters } from "../../ui/form-fields.ts";
import { RefusedNotice } from "../../ui/parts.tsx";
import { statusOfRefused } from "../../ui/services.ts";
import type { CallApi } from "../call-api.ts";
import { showPage } from "../components/layout.tsx";
import type { DashboardEnv } from "../session.ts";

const PATH = "/dashboard/deliveries";
const TAIL = `${PATH}/tail`;
const PAGE_SIZE = "25";

/** The filters, with the names that the API has for them. `tenant` is for whoever is bound to none. */
const filters = Object.entries(deliveryFilters).map(([name, [, label]]) => ({ name, label }));

/** The filters that the tail has too. */
const TAILED = ["tenant", "destination_id", "type"];
/** Those by which an index leads to deliveries. Without them the newest events come first. */
const INDEXED = ["state", "status", "reason"];

export function registerDeliveries(app: Hono<DashboardEnv>, callApi: CallApi): void {
  app.get(PATH, async (c) => {
    const services = c.get("services");
    const { tenant, principal } = c.get("visitor");
    const mayNameTenant = principal.tenant === undefined;
    const query = queryIn({ ...c.req.query(), tenant }, mayNameTenant);
    const cursor = c.req.query("cursor");
    const order = [...query.keys()].some((name) => INDEXED.includes(name)) ? "destination" : "event";
    const asked = new URLSearchParams({
      ...Object.fromEntries(query),
      order,
      limit: PAGE_SIZE,
      ...(cursor && { cursor }),
    });
    const result = await callApi(c, "GET", withQuery(apiPath`/v1/deliveries`, asked));
    const entries = result.ok ? await entriesOf(services, result.json.data as DeliveryJson[]) : [];
    return showPage(
      c,
      { title: "Deliveries", place: "deliveries" },
      <Deliveries
        query={query}
        entries={entries}
        isFirst={cursor === undefined}
        next={result.ok ? (result.json.next_cursor as string | null) : null}
        refused={result.ok ? undefined : result}
        follow={c.req.query("follow") !== undefined && cursor === undefined && result.ok}
        showTenant={mayNameTenant}
        now={services.now()}
      />,
      result.ok ? 200 : statusOfRefused(result),
    );
  });

  app.get(TAIL, async (c) => {
    const services = c.get("services");
    const { tenant, principal } = c.get("visitor");
    const mayNameTenant = principal.tenant === undefined;
    const query = queryIn({ ...c.req.query(), tenant }, mayNameTenant);
    const filter = {
      tenant,
      destinationId: query.get("destination_id") ?? undefined,
      type: query.get("type") ?? undefined,
    };
    const last = c.req.header(LAST_EVENT_ID);
    const render = (one: TailedDelivery) => rowOf(one, services.now(), mayNameTenant);
    return c.body(await tailStream(services, filter, last, render), 200, STREAM_HEADERS);
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

async function entriesOf(services: Services, deliveries: readonly DeliveryJson[]): Promise<LogEntry[]> {
  const numbers = deliveries.map((one) => eventNumber(one.event_id) ?? 0);
  const [events, placed] = await Promise.all([
    eventNames(services, numbers),
    destinationsByIds(services.db, [...new Set(deliveries.map((one) => one.destination_id))]),
  ]);
  const destinations = new Map(placed.map((row) => [row.id, row]));
  return deliveries.map((delivery, i) => ({
    delivery,
    event: events.get(numbers[i] ?? 0),
    destination: placeOf(destinations.get(delivery.destination_id)),
  }));
}

function placeOf(destination: Destination | null | undefined): string {
  return destination ? nameOf(destination) : "deleted destination";
}

async function rowOf({ found, event }: TailedDelivery, now: number, showTenant: boolean): Promise<string> {
  const entry = { delivery: showStored(found, now), event, destination: placeOf(found.destination) };
  return String(await (<DeliveryRow entry={entry} now={now} showTenant={showTenant} />));
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
        <DeliveryTable entries={entries} now={now} showTenant={showTenant} />
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
