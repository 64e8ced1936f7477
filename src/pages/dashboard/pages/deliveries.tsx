/**
 * The log of deliveries across destinations, with the filters of the API, and its live tail. The tail's rows are rendered
 * here, so that the page's script only puts them in their places.
 */

import type { FC } from "hono/jsx";
import { ok } from "../../../core/result.ts";
import {
  getDeliveryChoices,
  getDestinationsNamed,
  type NamedDestinations,
} from "../../../features/deliveries/filters.ts";
import { repairDeliveries } from "../../../features/deliveries/repairs.ts";
import { deliveryQuery } from "../../../features/deliveries/schema.ts";
import { getDeliveryLog, type LookedThrough, placesOf } from "../../../features/deliveries/service.ts";
import { LAST_EVENT_ID, STREAM_HEADERS, tailDeliveries } from "../../../features/deliveries/tail.ts";
import { storedDelivery } from "../../../features/deliveries/view.ts";
import { getEventTypes } from "../../../features/event-types/service.ts";
import { encodeCursor } from "../../../features/parameters.ts";
import { answerOf } from "../../../http/problems.ts";
import type { TailedDelivery } from "../../../store/delivery-tail.ts";
import { LogRow, LogTable } from "../../ui/delivery-log.tsx";
import { placeOf } from "../../ui/destination-table.tsx";
import { deliveryFilters } from "../../ui/form-fields.ts";
import { momentOf } from "../../ui/format.ts";
import { PageProvider, type PageView, usePage } from "../../ui/page.tsx";
import { ButtonLink, RefusedNotice, Section, Top } from "../../ui/parts.tsx";
import {
  DELIVERIES,
  FilterChips,
  Filters,
  filtersIn,
  logAt,
  NamedList,
  NO_CHOICES,
  pageWanted,
} from "../components/delivery-filters.tsx";
import { showPage } from "../components/layout.tsx";
import {
  callerOnPage,
  callerWithinTenant,
  callService,
  callWith,
  type Dashboard,
  type DashboardContext,
} from "../session.ts";
import { viewFor } from "../view.tsx";
import { Pickable, RepairLinks } from "./repair.tsx";

const TAIL = `${DELIVERIES}/tail`;
const PAGE_SIZE = 25;
/** Types of events that the filter offers. Others can be typed. */
const TYPES_OFFERED = 100;

/** The filters that the tail has too. */
const TAILED = ["tenant", "destination_id", "type"];

export function registerDeliveriesPage(app: Dashboard): void {
  app.get(DELIVERIES, async (c) => {
    const page = await readLogPage(c);
    if (page instanceof Response) return page;
    const { query, choices, types, refused, several, name, showTenant } = page;
    return showPage(
      c,
      { title: "Deliveries", place: "deliveries", refused },
      <>
        <Top
          title="Deliveries"
          lede="Deliveries to all destinations, the newest event first. Filtered by state, status code or reason, they are grouped by destination."
        />
        {refused && <RefusedNotice refused={refused} fields={deliveryFilters} />}
        <Filters query={query} choices={choices} types={types} showTenant={showTenant} />
        {several ? <NamedList query={query} name={name} named={several} /> : <Log {...page} />}
      </>,
    );
  });

  app.get(TAIL, async (c) => {
    const { tenant, principal } = c.get("visitor");
    const mayNameTenant = principal.tenant === undefined;
    const query = filtersIn({ ...c.req.query(), tenant }, mayNameTenant);
    const tailed = await tailDeliveries(callerWithinTenant(c), {
      destinationId: query.get("destination_id") ?? undefined,
      type: query.get("type") ?? undefined,
      last: c.req.header(LAST_EVENT_ID),
      render: (one) => rowOf(viewFor(c), one, mayNameTenant),
    });
    return tailed.kind === "ok" ? c.body(tailed.value, 200, STREAM_HEADERS) : answerOf(tailed);
  });
}

/** Reads the requested page, or redirects to the address with only its filters. */
async function readLogPage(c: DashboardContext) {
  const { tenant, principal } = c.get("visitor");
  const showTenant = principal.tenant === undefined;
  const { cursor, follow, destination: name = "", after, ...given } = c.req.query();
  const caller = callerOnPage(c);
  const query = filtersIn({ ...given, tenant }, showTenant);
  const named =
    name.trim() === "" ? undefined : await callService(c, getDestinationsNamed, { tenant, name, after });
  const several = named?.kind === "ok" && !isOne(named.value) ? named.value : undefined;
  if (named?.kind === "ok" && !several) query.set("destination_id", named.value.found[0]?.id ?? "");
  // A form sends its empty fields too: the address that is shown, and shared, has only the filters.
  const isFromForm =
    "destination" in c.req.query() || Object.values(given).some((value) => value.trim() === "");
  const refusedName = named && named.kind !== "ok" ? named : undefined;
  if (isFromForm && refusedName === undefined && several === undefined)
    return c.redirect(logAt(query, { ...(follow !== undefined && { follow }) }), 302);
  const wanted = pageWanted(query, PAGE_SIZE, cursor);
  const log =
    refusedName ??
    (several && ok(NOTHING)) ??
    (await callWith(c, deliveryQuery, wanted, (caller, input) =>
      getDeliveryLog(caller, { ...input, withRange: true }),
    ));
  const [choices, types] = await Promise.all([
    getDeliveryChoices(caller, { tenant, destination_id: query.get("destination_id") ?? undefined }),
    getEventTypes(caller, { archived: false, after: undefined, limit: TYPES_OFFERED }),
  ]);
  const { entries, next, looked } = log.kind === "ok" ? log.value : NOTHING;
  const refused = log.kind === "ok" ? undefined : log;
  const isFirst = cursor === undefined;
  return {
    ...{ query, name, several, refused, showTenant, isFirst },
    choices: choices.kind === "ok" ? choices.value : NO_CHOICES,
    types: types.kind === "ok" ? types.value.map((one) => one.name) : [],
    entries: entries.map((entry) => ({ ...entry, destination: placeOf(entry.destination) })),
    /** The cursor of the next page. */
    next: next && encodeCursor(placesOf(next)),
    /** The range that the page has searched; undefined when it is full, or the last one. */
    looked,
    follow: follow !== undefined && isFirst && refused === undefined,
  };
}

type LogProps = Exclude<Awaited<ReturnType<typeof readLogPage>>, Response>;

/** Whether that is the intended destination. */
function isOne({ count, next }: NamedDestinations): boolean {
  return count === 1 && next === undefined;
}

async function rowOf(view: PageView, { found, event }: TailedDelivery, showTenant: boolean): Promise<string> {
  const destination = placeOf(found.destination);
  const entry = { delivery: storedDelivery(found, view.now), event, destination };
  const row = (
    <PageProvider value={view}>
      <LogRow entry={entry} showTenant={showTenant} />
    </PageProvider>
  );
  return String(await row);
}

const NOTHING = { entries: [], next: undefined, looked: undefined };

const Log: FC<LogProps> = ({ query, choices, entries, isFirst, next, looked, follow, ...page }) => {
  const { now, mayCall } = usePage();
  // Rows that come in would move those that are selected.
  const mayPick = mayCall(repairDeliveries) && !follow && entries.length > 0;
  const toggle = follow ? (
    <ButtonLink href={logAt(query)}>Stop following</ButtonLink>
  ) : (
    <ButtonLink href={logAt(query, { follow: "1" })}>Follow live</ButtonLink>
  );
  return (
    <Section id="log" title="Log" aside={isFirst && toggle}>
      <FilterChips query={query} choices={choices} />
      {follow && <Tail query={query} />}
      {entries.length > 0 || follow ? (
        <Pickable query={query} isOn={mayPick}>
          <LogTable entries={entries} showTenant={page.showTenant} mayPick={mayPick} />
        </Pickable>
      ) : (
        !page.refused && (
          <p class="empty">{next === undefined ? "No deliveries match." : "Nothing matches so far."}</p>
        )
      )}
      <p class="pager">
        {looked && <span class="soft">{lookedText(looked, now)}</span>}
        {!isFirst && <a href={logAt(query)}>Newest</a>}
        {next !== undefined && <a href={logAt(query, { cursor: next })}>{looked ? "Continue" : "Older"}</a>}
      </p>
      {mayPick && <RepairLinks query={query} />}
    </Section>
  );
};

/** "Looked through 14:02:00 to 13:10:00." */
function lookedText({ from, to }: LookedThrough, now: number): string {
  const start = momentOf(from.acceptedAt ?? now, now);
  const end = to.acceptedAt === undefined ? "the oldest" : momentOf(to.acceptedAt, now);
  if (to.destination === undefined) return `Looked through ${start} to ${end}.`;
  const first = from.destination ? `from ${placeOf(from.destination)}` : "in their order";
  return `Looked through the destinations ${first} to ${placeOf(to.destination)}, there back to ${end}.`;
}

/** The script puts rows into the table that follows, and shows its state here. */
const Tail: FC<Pick<LogProps, "query">> = ({ query }) => {
  const tailed = new URLSearchParams([...query].filter(([name]) => TAILED.includes(name)));
  return (
    <>
      <output class="soft small" data-tail={logAt(tailed, {}, TAIL)}>
        Following needs JavaScript.
      </output>
      {tailed.size < query.size && (
        <p class="soft small">New deliveries are filtered only by tenant, destination and event type.</p>
      )}
    </>
  );
};
