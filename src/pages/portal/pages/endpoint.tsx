/** The page of one endpoint: what it does now, its traffic, its deliveries, and its settings. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { certificationIn } from "../../../core/certification.ts";
import { previousSecrets } from "../../../core/credentials.ts";
import { allows } from "../../../core/portal-access.ts";
import type { Series } from "../../../core/rollups.ts";
import { formsOf, recipeOf } from "../../../core/signature-forms.ts";
import { canCertify } from "../../../delivery/certification.ts";
import { isPolled, kindNameOf } from "../../../delivery/kinds/sending.ts";
import { type BlockedKeyPage, getBlockedKeys } from "../../../features/deliveries/ordering.ts";
import { destinationView } from "../../../features/destinations/schema.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import type { ConsumerList } from "../../../features/polling/schema.ts";
import { getConsumers } from "../../../features/polling/service.ts";
import type { PortalVisitor } from "../../../features/portal-links/visits.ts";
import { COUNTED, queryGates } from "../../../features/stats/fleet.ts";
import { type Destination, limitsOf } from "../../../store/destination.ts";
import { listReplays, type Replay } from "../../../store/replays.ts";
import { backlogOf } from "../../../store/stats.ts";
import { certificationSummary } from "../../ui/certification-panel.tsx";
import { SeriesChart, totalsOf } from "../../ui/charts.tsx";
import { ConsumerTable } from "../../ui/consumer-table.tsx";
import { type LogPage, logStates, readLog } from "../../ui/delivery-log.tsx";
import { nameOf, shortUrl } from "../../ui/destination-table.tsx";
import { indented } from "../../ui/format.ts";
import { ButtonLink, Crumb, Figure, Press } from "../../ui/parts.tsx";
import { readTransformFaults, TransformSummary } from "../../ui/transform-page.tsx";
import { PortalBlockedKeys } from "../blocked-keys.tsx";
import { DeliveryTable } from "../delivery-table.tsx";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import type { Look } from "../look.ts";
import { PortalOutcomeNotice, SectionHead } from "../parts.tsx";
import type { FieldFaults } from "../problems.ts";
import { ResendMany } from "../resend-many.tsx";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";
import { portalStatusText } from "../state-text.ts";
import { statusOfRow } from "./endpoints.tsx";
import { portalTransformWords } from "./transform.tsx";

export function registerEndpoint(app: Hono<PortalEnv>): void {
  app.get("/portal/endpoints/:id", (c) => showEndpoint(c, c.req.param("id")));
}

/** The result of a form on the page, where that is no redirect. */
type Shown = Readonly<{ faults?: FieldFaults; notice?: string; status?: 200 | 422 }>;

const REPLAYS_SHOWN = 3;

export async function showEndpoint(c: PortalContext, id: string, shown: Shown = {}) {
  const services = c.get("services");
  const [look, visitor] = [c.get("look"), c.get("visitor")];
  const { tenant } = visitor;
  const found = await getDestination(callerInPortal(c), id);
  if (found.kind !== "ok") return showPortalNotFound(c);
  const row = found.value;
  const state = logStates.find((name) => name === c.req.query("state")) ?? "all";
  const latest = { tenant, destinationId: id, state: undefined, before: undefined, limit: REPLAYS_SHOWN };
  const [[figures], backlogs, deliveries, { replays }, blocked, transformFaults, consumers] =
    await Promise.all([
      queryGates(services, [row], { windows: ["24h"], series: true }),
      backlogOf(services, [id], COUNTED),
      readLog(callerInPortal(c), row, { state, before: c.req.query("before") }),
      listReplays(services, latest),
      row.ordering === null ? undefined : getBlockedKeys(callerInPortal(c), { destination: id }),
      readTransformFaults(callerInPortal(c), row),
      isPolled(row) ? getConsumers(callerInPortal(c), id) : undefined,
    ]);
  return showPortalPage(
    c,
    { title: nameOf(row), place: "endpoints", live: shown.faults === undefined },
    <EndpointPage
      look={look}
      visitor={visitor}
      row={row}
      figures={figures}
      backlog={backlogs.get(id) ?? { waiting: 0, dead: 0 }}
      deliveries={deliveries}
      replays={replays}
      blocked={blocked?.kind === "ok" ? blocked.value : undefined}
      transformFaults={transformFaults}
      consumers={consumers?.kind === "ok" ? consumers.value : undefined}
      now={services.now()}
      outcome={c.req.query("done")}
      {...shown}
    />,
    shown.status ?? 200,
  );
}

type Props = Omit<Shown, "status"> &
  Readonly<{
    look: Look;
    visitor: PortalVisitor;
    row: Destination;
    figures: Awaited<ReturnType<typeof queryGates>>[number];
    backlog: Readonly<{ waiting: number; dead: number }>;
    deliveries: LogPage;
    replays: readonly Replay[];
    /** Undefined where the endpoint is not ordered. */
    blocked: BlockedKeyPage | undefined;
    transformFaults: Awaited<ReturnType<typeof readTransformFaults>>;
    /** Undefined where the endpoint is not polled, or its inbox cannot be reached. */
    consumers: ConsumerList | undefined;
    now: number;
    outcome: string | undefined;
  }>;

const EndpointPage: FC<Props> = ({
  look,
  visitor: { access },
  row,
  figures,
  backlog,
  deliveries,
  replays,
  blocked,
  transformFaults,
  consumers,
  now,
  outcome,
  faults = {},
  notice,
}) => {
  const { t } = look;
  const path = `/portal/endpoints/${row.id}`;
  const status = statusOfRow(row, figures, now);
  const isFetched = isPolled(row);
  const { tone, text, label } = portalStatusText(look, status, now);
  const isAny = allows(access, "change_endpoint") || allows(access, "send_test");
  return (
    <>
      <section>
        <Crumb href="/portal">{t.endpoint.crumb}</Crumb>
        <h1 class="break">{nameOf(row)}</h1>
        {row.description !== null && <p class="lede break">{shortUrl(row.url)}</p>}
      </section>
      {notice === undefined ? (
        <PortalOutcomeNotice look={look} name={outcome} />
      ) : (
        <output class="notice tone-good">{notice}</output>
      )}
      <section class={`status tone-${tone}`} aria-label={t.list.status}>
        <p>
          <strong>{label}</strong>
        </p>
        <p>{isFetched && status.kind === "idle" ? t.polling.target : text}</p>
      </section>
      <section class="actions" aria-label={t.endpoint.settings}>
        {isFetched && allows(access, "manage_poll_keys") && (
          <ButtonLink href={`${path}/poll`}>{t.polling.title}</ButtonLink>
        )}
        {!isFetched && allows(access, "send_test") && (
          <ButtonLink href={`${path}/test`}>{t.endpoint.test}</ButtonLink>
        )}
        {row.status === "paused"
          ? allows(access, "resume_endpoint") && (
              <Press action={`${path}/resume`} label={t.endpoint.resume} isMain />
            )
          : allows(access, "pause_endpoint") && <Press action={`${path}/pause`} label={t.endpoint.pause} />}
        {allows(access, "change_endpoint") && (
          <ButtonLink href={`${path}/change`}>{t.endpoint.edit}</ButtonLink>
        )}
        <a class={isAny ? "button" : ""} href={`${path}/verify`}>
          {t.endpoint.verify}
        </a>
        {!isFetched && allows(access, "change_endpoint") && allows(access, "write_transform") && (
          <ButtonLink href={`${path}/transform`}>{t.transform.title}</ButtonLink>
        )}
        {canCertify(row) && (
          <a class={isAny ? "button" : ""} href={`${path}/certification`}>
            {t.certification.title}
          </a>
        )}
        {(allows(access, "change_endpoint") || row.noticeChannel !== null) && (
          <a class={isAny ? "button" : ""} href={`${path}/notices`}>
            {t.notices.title}
          </a>
        )}
        {!isAny && <span class="small soft">{t.readOnly}</span>}
      </section>
      {!isFetched && <Traffic look={look} series={figures?.windows["24h"]?.series ?? []} backlog={backlog} />}
      {blocked && <PortalBlockedKeys look={look} page={blocked} />}
      {consumers && <PortalConsumers look={look} list={consumers} now={now} />}
      {!isFetched && (
        <DeliveryTable
          look={look}
          access={access}
          mayTest={allows(access, "send_test")}
          path={path}
          page={deliveries}
          now={now}
        />
      )}
      {allows(access, "resend") && (
        <ResendMany look={look} path={path} replays={replays} now={now} faults={faults} />
      )}
      <div class="columns">
        <Settings look={look} row={row} />
        <TransformSummary
          words={portalTransformWords(look, now)}
          row={row}
          path={`${path}/transform`}
          faults={transformFaults}
        />
        {allows(access, "rotate_secret") && (
          <Secret look={look} path={path} row={row} now={now} faults={faults} />
        )}
        {allows(access, "delete_endpoint") && <Deletion look={look} path={path} />}
      </div>
    </>
  );
};

type TrafficProps = Pick<Props, "look" | "backlog"> & Readonly<{ series: Series }>;

const Traffic: FC<TrafficProps> = ({ look: { t, f }, series, backlog }) => {
  const { all, failed } = totalsOf(series);
  return (
    <section aria-label={t.endpoint.attempts24h}>
      <dl class="figures">
        <Figure name={t.endpoint.attempts24h} value={f.count(all)} />
        <Figure name={t.endpoint.waiting} value={f.atMost(backlog.waiting, COUNTED)} />
        <Figure
          name={t.endpoint.dead}
          value={f.atMost(backlog.dead, COUNTED)}
          tone={backlog.dead > 0 ? "bad" : undefined}
        />
      </dl>
      {all > 0 && (
        <>
          <div class="legend" aria-hidden="true">
            <span class="tone-good">{t.endpoint.succeeded}</span>
            <span class="tone-bad">{t.endpoint.failedLegend}</span>
          </div>
          <SeriesChart
            series={series}
            label={t.endpoint.chart(f.count(all), f.count(failed))}
            axis={[t.endpoint.hoursAgo, t.endpoint.now]}
          />
        </>
      )}
    </section>
  );
};

function targetText({ t }: Look, { url }: Destination): string {
  const kind = kindNameOf(url);
  return kind === "https" ? url : kind === "poll" ? t.polling.target : t.endpoint.notHttps;
}

const Settings: FC<{ look: Look; row: Destination }> = ({ look, row }) => {
  const { t, f } = look;
  const view = destinationView(row);
  const limits = limitsOf(row);
  const headers = Object.entries(view.headers).map(([name, mask]) =>
    name === "" ? t.endpoint.unreadable : `${name}: ${mask}`,
  );
  return (
    <section aria-labelledby="settings">
      <SectionHead id="settings" title={t.endpoint.settings} />
      <dl class="settings">
        <dt>{t.endpoint.address}</dt>
        <dd>{targetText(look, row)}</dd>
        <dt>{t.endpoint.events}</dt>
        <dd>{view.event_types === null ? t.endpoint.allEvents : view.event_types.join(", ")}</dd>
        {view.filter !== null && (
          <>
            <dt>{t.endpoint.filter}</dt>
            <dd>
              <pre tabindex={0}>{indented(JSON.stringify(view.filter))}</pre>
            </dd>
          </>
        )}
        <dt>{t.endpoint.headers}</dt>
        <dd>{headers.length === 0 ? t.none : headers.map((text) => <div>{text}</div>)}</dd>
        <dt>{t.signing.body}</dt>
        <dd>{t.signing.bodies[view.body]}</dd>
        <dt>{t.endpoint.signature}</dt>
        <dd>
          {formsOf(row.signatureForms).map((form) => (
            <div>{`${form.form}: ${recipeOf(form).header}`}</div>
          ))}
        </dd>
        {row.certification !== null && (
          <>
            <dt>{t.certification.title}</dt>
            <dd>{certificationSummary(t.certification, certificationIn(row.certification))}</dd>
          </>
        )}
        {row.expiresAt !== null && (
          <>
            <dt>{t.endpoint.subscription}</dt>
            <dd>{t.endpoint.subscriptionUntil(f.moment(row.expiresAt))}</dd>
          </>
        )}
        <dt>{t.endpoint.limits}</dt>
        <dd>{t.endpoint.limitsText(f.count(limits.max_concurrency), f.count(limits.rate_per_second))}</dd>
      </dl>
    </section>
  );
};

type SecretProps = Readonly<{
  look: Look;
  path: string;
  row: Destination;
  now: number;
  faults: FieldFaults;
}>;

type ConsumersProps = Readonly<{ look: Look; list: ConsumerList; now: number }>;

const PortalConsumers: FC<ConsumersProps> = ({ look: { t, f }, list: { data }, now }) => (
  <section aria-labelledby="consumers">
    <SectionHead id="consumers" title={t.polling.consumers} />
    {data.length === 0 ? (
      <p class="empty">{t.polling.noConsumers}</p>
    ) : (
      <ConsumerTable
        consumers={data}
        heads={t.polling.heads}
        eventsOf={(events, isMore) => (isMore ? t.polling.orMore(f.count(events)) : f.count(events))}
        durationOf={f.duration}
        agoOf={(at) => f.ago(at, now)}
      />
    )}
  </section>
);

/** Takes two clicks: the first one only opens the form. */
const Secret: FC<SecretProps> = ({ look: { t, f }, path, row, now, faults }) => {
  const previous = previousSecrets(row.previousSecrets, now);
  const last = Math.max(...previous.map(({ expires_at }) => expires_at));
  const fault = faults.overlap_hours ?? faults.overlap_s;
  return (
    <section aria-labelledby="secret-head">
      <SectionHead id="secret-head" title={t.secret.title} />
      <div class="stack">
        <p>{t.secret.text}</p>
        {previous.length > 0 && <p>{t.secret.previous(f.until(last, now))}</p>}
        <details open={fault !== undefined}>
          <summary>{t.secret.rotate}</summary>
          <form class="stack" method="post" action={`${path}/rotate`}>
            <input type="hidden" name="secret_version" value={String(row.secretVersion)} autocomplete="off" />
            <div>
              <label for="overlap_hours">{t.secret.overlap}</label>
              <input
                type="number"
                id="overlap_hours"
                name="overlap_hours"
                min={0}
                max={168}
                value="24"
                {...(fault !== undefined && {
                  "aria-invalid": "true",
                  "aria-describedby": "overlap_hours-fault",
                })}
              />
              {fault !== undefined && (
                <p class="fault" id="overlap_hours-fault" role="alert">
                  {fault}
                </p>
              )}
            </div>
            <div class="actions">
              <button type="submit">{t.secret.create}</button>
              <span class="hint">{t.secret.once}</span>
            </div>
          </form>
        </details>
      </div>
    </section>
  );
};

const Deletion: FC<{ look: Look; path: string }> = ({ look: { t }, path }) => (
  <section aria-labelledby="deletion">
    <SectionHead id="deletion" title={t.endpoint.delete} />
    <details>
      <summary>{t.endpoint.delete}</summary>
      <form class="stack" method="post" action={`${path}/delete`}>
        <p>{t.endpoint.deleteText}</p>
        <div class="actions">
          <button type="submit" class="danger">
            {t.endpoint.deleteConfirm}
          </button>
        </div>
      </form>
    </details>
  </section>
);
