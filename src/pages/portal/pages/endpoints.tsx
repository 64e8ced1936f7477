/** The first page: the tenant's endpoints, and what to do while there are none. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { destinationStatus } from "../../../core/destination-status.ts";
import { allows, allowsAnother } from "../../../core/portal-access.ts";
import { isPolled } from "../../../delivery/kinds/sending.ts";
import { getDestinations } from "../../../features/destinations/service.ts";
import type { PortalVisitor } from "../../../features/portal-links/visits.ts";
import { queryGates } from "../../../features/stats/fleet.ts";
import { type Destination, gateSettingsOf } from "../../../store/destination.ts";
import { totalsOf } from "../../ui/charts.tsx";
import { nameOf, shortUrl } from "../../ui/destination-table.tsx";
import { ButtonLink, ClippedCell, LineTable, StateCell } from "../../ui/parts.tsx";
import { showPortalPage, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { PortalOutcomeNotice } from "../parts.tsx";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { portalStatusText } from "../state-text.ts";

/** Each costs a call of a gate. */
const PAGE_SIZE = 20;

type Figures = Awaited<ReturnType<typeof queryGates>>[number];

export function registerEndpointPages(app: Hono<PortalEnv>): void {
  app.get("/portal", async (c) => {
    const services = c.get("services");
    const [look, visitor] = [c.get("look"), c.get("visitor")];
    const after = c.req.query("after");
    const page = { tenant: visitor.tenant, after, limit: PAGE_SIZE + 1 };
    const listed = await getDestinations(callerInPortal(c), page);
    if (listed.kind !== "ok") return showRefused(c, listed, "/portal");
    const rows = listed.value;
    const shown = rows.slice(0, PAGE_SIZE);
    const figures = await queryGates(services, shown, { windows: ["24h"], series: true });
    return showPortalPage(
      c,
      { title: look.t.list.title, place: "endpoints", live: true },
      <>
        <PortalOutcomeNotice look={look} name={c.req.query("done")} />
        {rows.length === 0 && after === undefined ? (
          <NoEndpoints look={look} visitor={visitor} />
        ) : (
          <Endpoints
            look={look}
            visitor={visitor}
            rows={shown}
            figures={figures}
            isFirst={after === undefined}
            next={rows.length > PAGE_SIZE ? shown.at(-1)?.id : undefined}
            now={services.now()}
          />
        )}
      </>,
    );
  });
}

type Props = Readonly<{
  look: Look;
  visitor: PortalVisitor;
  rows: readonly Destination[];
  /** In the order of the rows. */
  figures: readonly Figures[];
  isFirst: boolean;
  next: string | undefined;
  now: number;
}>;

const Endpoints: FC<Props> = ({ look, visitor, rows, figures, isFirst, next, now }) => {
  const { t } = look;
  const { access } = visitor;
  // A page that is not full is all there is; where there is more, whether it is too much is said when one is added.
  const isFull = isFirst && next === undefined && !allowsAnother(access, rows.length);
  return (
    <section>
      <div class="head">
        <h1>{t.list.title}</h1>
        {allows(access, "create_endpoint") && !isFull && (
          <ButtonLink href="/portal/endpoints/new">{t.list.add}</ButtonLink>
        )}
      </div>
      <p class="lede">{t.list.lede}</p>
      {!allows(access, "create_endpoint") && <p class="small soft">{t.refusals.create_endpoint}</p>}
      {allows(access, "create_endpoint") && isFull && (
        <p class="small soft">{t.list.full(look.f.count(access.max_endpoints ?? 0))}</p>
      )}
      {rows.length === 0 ? (
        <p class="empty">{t.list.noMore}</p>
      ) : (
        <LineTable
          columns={[
            [t.list.endpoint, "main"],
            [t.list.status, "state-cell"],
            [t.list.events, "wide"],
            [t.list.traffic, "num traffic wide"],
          ]}
        >
          {rows.map((row, i) => (
            <Row look={look} row={row} figures={figures[i]} now={now} />
          ))}
        </LineTable>
      )}
      {(next !== undefined || !isFirst) && (
        <nav class="pager" aria-label={t.list.title}>
          {!isFirst && <a href="/portal">{t.list.first}</a>}
          {next !== undefined && <a href={`/portal?after=${next}`}>{t.list.more}</a>}
        </nav>
      )}
      <p class="pager">
        <a href="/portal/agent">{t.agent.title}</a>
      </p>
    </section>
  );
};

const Row: FC<{ look: Look; row: Destination; figures: Figures; now: number }> = ({
  look,
  row,
  figures,
  now,
}) => {
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

const NoEndpoints: FC<{ look: Look; visitor: PortalVisitor }> = ({ look: { t, f }, visitor: { access } }) => {
  const mayAdd = allows(access, "create_endpoint") && allowsAnother(access, 0);
  return (
    <section class="narrow">
      <h1>{t.list.emptyTitle}</h1>
      {mayAdd ? (
        <>
          <p class="lede">{t.list.emptyLede}</p>
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
        </>
      ) : (
        <p class="lede">
          {allows(access, "create_endpoint")
            ? t.list.full(f.count(access.max_endpoints ?? 0))
            : t.list.emptyReadOnly}
        </p>
      )}
    </section>
  );
};
