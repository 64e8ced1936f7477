/** The first page: the tenant's endpoints, and what to do while there are none. */
import type { FC } from "hono/jsx";
import { destinationStatus } from "../../../core/destination-status.ts";
import { allowsAnother } from "../../../core/portal-access.ts";
import { isPolled } from "../../../delivery/kinds/sending.ts";
import { getDestinations } from "../../../features/destinations/service.ts";
import { queryGates } from "../../../features/stats/fleet.ts";
import { type Destination, gateSettingsOf } from "../../../store/destination.ts";
import { totalsOf } from "../../ui/charts.tsx";
import { nameOf, shortUrl } from "../../ui/destination-table.tsx";
import { ButtonLink, LineTable, OutcomeNotice, Pager, RowName, sparing, Top } from "../../ui/parts.tsx";
import { pageAfter } from "../../ui/services.ts";
import { showPortalPage, showRefused } from "../layout.tsx";
import { usePortal } from "../look.ts";
import { callerInPortal, type Portal } from "../session.ts";
import { portalStatusText } from "../state-text.ts";

/** Each costs a call of a gate. */
const PAGE_SIZE = 20;

type Figures = Awaited<ReturnType<typeof queryGates>>[number];

export function registerEndpointPages(app: Portal): void {
  app.get("/portal", async (c) => {
    const services = c.get("services");
    const { tenant, access } = c.get("visitor");
    const listed = await pageAfter(
      c.req.query("after"),
      PAGE_SIZE,
      (page) => getDestinations(callerInPortal(c), { tenant, ...page }),
      ({ id }) => id,
    );
    if (listed.kind !== "ok") return showRefused(c, listed, "/portal");
    const { rows, ...pager } = listed.value;
    const figures = await queryGates(services, rows, { windows: ["24h"], series: true });
    // A page that is not full has all endpoints; if there are more, the limit is reported when one is added.
    const isFull = pager.isFirst && pager.next === undefined && !allowsAnother(access, rows.length);
    return showPortalPage(
      c,
      { title: c.get("look").t.endpoints, place: "endpoints", live: true },
      <>
        <OutcomeNotice name={c.req.query("done")} />
        {rows.length === 0 && pager.isFirst ? (
          <NoEndpoints most={isFull ? access.max_endpoints : null} />
        ) : (
          <section>
            <ListHead most={isFull ? access.max_endpoints : null} />
            <EndpointTable rows={rows} figures={figures} />
            <Pager path="/portal" {...pager} />
            <p class="pager">
              <a href="/portal/agent">{c.get("look").t.agent.title}</a>
            </p>
          </section>
        )}
      </>,
    );
  });
}

type LimitProps = Readonly<{
  /** The number of endpoints, and their limit; null: there may be more. */
  most: number | null;
}>;

const ListHead: FC<LimitProps> = ({ most }) => {
  const { t, f, may } = usePortal();
  const mayCreate = may("create_endpoint");
  return (
    <>
      <div class="head">
        <h1>{t.endpoints}</h1>
        {mayCreate && most === null && <ButtonLink href="/portal/endpoints/new">{t.list.add}</ButtonLink>}
      </div>
      <p class="lede">{t.list.lede}</p>
      {!mayCreate && <p class="small soft">{t.refusals.create_endpoint}</p>}
      {mayCreate && most !== null && <p class="small soft">{t.list.full(f.count(most))}</p>}
    </>
  );
};

/** @param props `figures` in the order of the rows */
const EndpointTable: FC<{ rows: readonly Destination[]; figures: readonly Figures[] }> = ({
  rows,
  figures,
}) => {
  const page = usePortal();
  const { now, f } = page;
  const { list: t, endpoint, log } = page.t;
  const shown = rows.map((row, i) => ({ row, figures: figures[i] }));
  const urlOf = ({ row }: Shown) => (row.description === null ? "" : shortUrl(row.url));
  return (
    <LineTable
      rows={shown}
      idOf={({ row }) => row.id}
      columns={[
        [
          t.endpoint,
          "main",
          (one) => (
            <RowName name={nameOf(one.row)} href={`/portal/endpoints/${one.row.id}`} sub={urlOf(one)} />
          ),
          (one) => [nameOf(one.row), urlOf(one)].filter(Boolean).join(" · "),
        ],
        [
          t.status,
          "state-cell",
          ({ row, figures }) => sparing(portalStatusText(page, statusOfRow(row, figures, now), now)),
        ],
        [endpoint.events, "wide", ({ row }) => row.eventTypes?.join(", ") ?? log.states.all, true],
        [
          t.traffic,
          "num traffic wide",
          ({ row, figures }) => {
            if (figures === undefined || isPolled(row)) return "–";
            const sum = totalsOf(figures.windows["24h"]?.series ?? []);
            return t.attempts(f.count(sum.all), f.count(sum.failed));
          },
        ],
      ]}
      empty={t.noMore}
    />
  );
};

type Shown = Readonly<{ row: Destination; figures: Figures | undefined }>;

export function statusOfRow(row: Destination, figures: Figures | undefined, now: number) {
  const { maxConcurrency } = gateSettingsOf(row);
  const { status, statusReason } = row;
  return destinationStatus({ status, statusReason, maxConcurrency, view: figures?.view }, now);
}

const NoEndpoints: FC<LimitProps> = ({ most }) => {
  const { t, f, may } = usePortal();
  const mayCreate = may("create_endpoint");
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
