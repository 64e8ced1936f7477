/** The first page: the tenant's endpoints, and what to do while there are none. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { destinationStatus } from "../../../core/destination-status.ts";
import { allowsAnother } from "../../../core/portal-access.ts";
import { isPolled } from "../../../delivery/kinds/sending.ts";
import { getDestinations } from "../../../features/destinations/service.ts";
import { queryGates } from "../../../features/stats/fleet.ts";
import { type Destination, gateSettingsOf } from "../../../store/destination.ts";
import { totalsOf } from "../../ui/charts.tsx";
import { nameOf, shortUrl } from "../../ui/destination-table.tsx";
import { usePage } from "../../ui/page.tsx";
import { ButtonLink, ClippedCell, LineTable, Pager, StateCell, Top } from "../../ui/parts.tsx";
import { pageOfRows } from "../../ui/services.ts";
import { showPortalPage, showRefused } from "../layout.tsx";
import { useLook } from "../look.ts";
import { PortalOutcomeNotice } from "../parts.tsx";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { portalStatusText } from "../state-text.ts";

/** Each costs a call of a gate. */
const PAGE_SIZE = 20;

type Figures = Awaited<ReturnType<typeof queryGates>>[number];

export function registerEndpointPages(app: Hono<PortalEnv>): void {
  app.get("/portal", async (c) => {
    const services = c.get("services");
    const { tenant, access } = c.get("visitor");
    const after = c.req.query("after");
    const listed = await getDestinations(callerInPortal(c), { tenant, after, limit: PAGE_SIZE + 1 });
    if (listed.kind !== "ok") return showRefused(c, listed, "/portal");
    const { rows, next } = pageOfRows(listed.value, PAGE_SIZE);
    const figures = await queryGates(services, rows, { windows: ["24h"], series: true });
    const isFirst = after === undefined;
    // A page that is not full is all there is; where there is more, whether it is too much is said when one is added.
    const isFull = isFirst && next === undefined && !allowsAnother(access, rows.length);
    return showPortalPage(
      c,
      { title: c.get("look").t.list.title, place: "endpoints", live: true },
      <>
        <PortalOutcomeNotice name={c.req.query("done")} />
        {rows.length === 0 && isFirst ? (
          <NoEndpoints most={isFull ? access.max_endpoints : null} />
        ) : (
          <section>
            <ListHead most={isFull ? access.max_endpoints : null} />
            <EndpointTable rows={rows} figures={figures} />
            <Pager path="/portal" next={next && { after: next.id }} isFirst={isFirst} />
            <AgentLink />
          </section>
        )}
      </>,
    );
  });
}

type LimitProps = Readonly<{
  /** So many endpoints there may be, and are; null: there may be more. */
  most: number | null;
}>;

const ListHead: FC<LimitProps> = ({ most }) => {
  const { t, f } = useLook();
  const mayCreate = usePage().may("create_endpoint");
  return (
    <>
      <div class="head">
        <h1>{t.list.title}</h1>
        {mayCreate && most === null && <ButtonLink href="/portal/endpoints/new">{t.list.add}</ButtonLink>}
      </div>
      <p class="lede">{t.list.lede}</p>
      {!mayCreate && <p class="small soft">{t.refusals.create_endpoint}</p>}
      {mayCreate && most !== null && <p class="small soft">{t.list.full(f.count(most))}</p>}
    </>
  );
};

const AgentLink: FC = () => (
  <p class="pager">
    <a href="/portal/agent">{useLook().t.agent.title}</a>
  </p>
);

/** @param props `figures` in the order of the rows */
const EndpointTable: FC<{ rows: readonly Destination[]; figures: readonly Figures[] }> = ({
  rows,
  figures,
}) => {
  const { list: t } = useLook().t;
  return (
    <LineTable
      columns={[
        [t.endpoint, "main"],
        [t.status, "state-cell"],
        [t.events, "wide"],
        [t.traffic, "num traffic wide"],
      ]}
      empty={t.noMore}
    >
      {rows.map((row, i) => (
        <Row row={row} figures={figures[i]} />
      ))}
    </LineTable>
  );
};

const Row: FC<{ row: Destination; figures: Figures }> = ({ row, figures }) => {
  const { now } = usePage();
  const look = useLook();
  const { t, f } = look;
  const { tone, label, text } = portalStatusText(look, statusOfRow(row, figures, now), now);
  const { all, failed } = totalsOf(figures?.windows["24h"]?.series ?? []);
  const url = row.description === null ? undefined : shortUrl(row.url);
  const events = row.eventTypes === null ? t.all : row.eventTypes.join(", ");
  return (
    <tr id={row.id}>
      <ClippedCell text={url === undefined ? nameOf(row) : `${nameOf(row)} · ${url}`}>
        <a class="name" href={`/portal/endpoints/${row.id}`}>
          {nameOf(row)}
        </a>
        {url !== undefined && <span class="sub">{url}</span>}
      </ClippedCell>
      <StateCell tone={tone} label={label} text={tone === "good" ? "" : text} />
      <ClippedCell text={events} of="wide">
        {events}
      </ClippedCell>
      <td class="num wide">
        {figures === undefined || isPolled(row) ? "–" : t.list.attempts(f.count(all), f.count(failed))}
      </td>
    </tr>
  );
};

export function statusOfRow(row: Destination, figures: Figures, now: number) {
  const { maxConcurrency } = gateSettingsOf(row);
  const { status, statusReason } = row;
  return destinationStatus({ status, statusReason, maxConcurrency, view: figures?.view }, now);
}

const NoEndpoints: FC<LimitProps> = ({ most }) => {
  const { t, f } = useLook();
  const mayCreate = usePage().may("create_endpoint");
  if (!mayCreate || most !== null)
    return (
      <Top
        of="narrow"
        title={t.list.emptyTitle}
        lede={mayCreate ? t.list.full(f.count(most ?? 0)) : t.list.emptyReadOnly}
      />
    );
  return (
    <Top of="narrow" title={t.list.emptyTitle} lede={t.list.emptyLede}>
      <div class="stack">
        <ol class="steps">
          {t.list.emptySteps.map((step) => (
            <li>{step}</li>
          ))}
        </ol>
        <div class="actions">
          <ButtonLink href="/portal/endpoints/new">{t.list.add}</ButtonLink>
          <a href="/portal/event-types">{t.eventTypes}</a>
        </div>
      </div>
    </Top>
  );
};
