/** The page of one endpoint: what it does now, its traffic, its deliveries, and its settings. */
import type { Hono } from "hono";
import type { Child, FC } from "hono/jsx";
import { certificationIn } from "../../../core/certification.ts";
import { previousSecrets } from "../../../core/credentials.ts";
import { formsOf, recipeOf } from "../../../core/signature-forms.ts";
import { canCertify } from "../../../delivery/certification.ts";
import { isPolled, kindNameOf } from "../../../delivery/kinds/sending.ts";
import { destinationView } from "../../../features/destinations/schema.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { COUNTED, queryGates } from "../../../features/stats/fleet.ts";
import { type Destination, limitsOf } from "../../../store/destination.ts";
import { backlogOf } from "../../../store/stats.ts";
import { BlockedKeys } from "../../ui/blocked-keys.tsx";
import { certificationSummary } from "../../ui/certification-page.tsx";
import { Legend, SeriesChart, totalsOf } from "../../ui/charts.tsx";
import { Consumers } from "../../ui/consumers.tsx";
import { DeliveryLog, type LogPage } from "../../ui/delivery-log.tsx";
import { readParts } from "../../ui/destination-parts.ts";
import { nameOf, shortUrl } from "../../ui/destination-table.tsx";
import { TextField } from "../../ui/fields.tsx";
import { indented } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { CheckAll, Crumb, Figure, Press, Section } from "../../ui/parts.tsx";
import { TransformSummary } from "../../ui/transform-page.tsx";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import { type Look, useLook } from "../look.ts";
import { PortalOutcomeNotice } from "../parts.tsx";
import { type FieldFaults, portalForm } from "../problems.ts";
import { ResendMany } from "../resend-many.tsx";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";
import { portalStatusText } from "../state-text.ts";
import { statusOfRow } from "./endpoints.tsx";

export function registerEndpoint(app: Hono<PortalEnv>): void {
  app.get("/portal/endpoints/:id", (c) => showEndpoint(c, c.req.param("id")));
}

/** The result of a form on the page, where that is no redirect. */
type Shown = Readonly<{ faults?: FieldFaults; notice?: string }>;

export async function showEndpoint(c: PortalContext, id: string, { faults, notice }: Shown = {}) {
  const found = await getDestination(callerInPortal(c), id);
  if (found.kind !== "ok") return showPortalNotFound(c);
  const endpoint = await readEndpoint(c, found.value);
  const outcome =
    notice === undefined ? (
      <PortalOutcomeNotice name={c.req.query("done")} />
    ) : (
      <output class="notice tone-good">{notice}</output>
    );
  return showPortalPage(
    c,
    { title: nameOf(found.value), place: "endpoints", live: faults === undefined },
    <EndpointPage {...endpoint} faults={faults ?? {}} outcome={outcome} />,
    faults === undefined ? 200 : 422,
  );
}

async function readEndpoint(c: PortalContext, row: Destination) {
  const services = c.get("services");
  const [[figures], backlogs, parts] = await Promise.all([
    queryGates(services, [row], { windows: ["24h"], series: true }),
    backlogOf(services, [row.id], COUNTED),
    readParts(callerInPortal(c), row, row.tenant, c.req.query()),
  ]);
  return { ...parts, row, figures, backlog: backlogs.get(row.id) ?? { waiting: 0, dead: 0 } };
}

type Endpoint = Awaited<ReturnType<typeof readEndpoint>>;

const EndpointPage: FC<Endpoint & Readonly<{ faults: FieldFaults; outcome: Child }>> = (props) => {
  const { row, figures, deliveries, replays, blocked, transformFaults, consumers, faults, outcome } = props;
  const { now, may } = usePage();
  const look = useLook();
  const { t } = look;
  const path = `/portal/endpoints/${row.id}`;
  const status = statusOfRow(row, figures, now);
  const isFetched = isPolled(row);
  const { tone, text, label } = portalStatusText(look, status, now);
  return (
    <>
      <section>
        <Crumb href="/portal">{t.endpoint.crumb}</Crumb>
        <h1>{nameOf(row)}</h1>
        {row.description !== null && <p class="lede">{shortUrl(row.url)}</p>}
      </section>
      {outcome}
      <section class={`status tone-${tone}`} aria-label={t.list.status}>
        <p>
          <strong>{label}</strong>
        </p>
        <p>{isFetched && status.kind === "idle" ? t.polling.target : text}</p>
      </section>
      <Actions row={row} path={path} />
      {!isFetched && <Traffic {...props} />}
      {blocked && <BlockedKeys page={blocked} />}
      {consumers && <Consumers list={consumers} />}
      {!isFetched && <Deliveries path={path} page={deliveries} />}
      {may("resend") && <ResendMany path={path} replays={replays} faults={faults} />}
      <div class="columns">
        <Settings row={row} />
        <TransformSummary row={row} path={path} faults={transformFaults} />
        {may("rotate_secret") && <Secret path={path} row={row} faults={faults} />}
        {may("delete_endpoint") && <Deletion path={path} />}
      </div>
    </>
  );
};

/** Who may change or test nothing sees links in place of buttons. */
const Actions: FC<{ row: Destination; path: string }> = ({ row, path }) => {
  const { may } = usePage();
  const { t } = useLook();
  const isFetched = isPolled(row);
  const isAny = may("change_endpoint") || may("send_test");
  const change = row.status === "paused" ? "resume" : "pause";
  const link = (page: string, text: string, isShown = true) =>
    isShown && (
      <a class={isAny ? "button" : ""} href={`${path}/${page}`}>
        {text}
      </a>
    );
  return (
    <section class="actions" aria-label={t.endpoint.settings}>
      {link("poll", t.polling.title, isFetched && may("manage_poll_keys"))}
      {link("test", t.endpoint.test, !isFetched && may("send_test"))}
      {may(`${change}_endpoint`) && (
        <Press
          action={`${path}/${change}`}
          label={t.endpoint[change]}
          {...(change === "resume" && { of: "main" as const })}
        />
      )}
      {link("change", t.endpoint.edit, may("change_endpoint"))}
      {link("verify", t.endpoint.verify)}
      {link("transform", t.transform.title, !isFetched && may("change_endpoint") && may("write_transform"))}
      {link("certification", t.certification.title, canCertify(row))}
      {link("notices", t.notices.title, may("change_endpoint") || row.noticeChannel !== null)}
      {!isAny && <span class="small soft">{t.readOnly}</span>}
    </section>
  );
};

const Traffic: FC<Pick<Endpoint, "figures" | "backlog">> = ({ figures, backlog: { waiting, dead } }) => {
  const { t, f } = useLook();
  const series = figures?.windows["24h"]?.series ?? [];
  const { all, failed } = totalsOf(series);
  return (
    <section aria-label={t.endpoint.attempts24h}>
      <dl class="figures">
        <Figure name={t.endpoint.attempts24h} value={f.count(all)} />
        <Figure name={t.endpoint.waiting} value={f.atMost(waiting, COUNTED)} />
        <Figure name={t.endpoint.dead} value={f.atMost(dead, COUNTED)} tone={dead > 0 ? "bad" : undefined} />
      </dl>
      {all > 0 && (
        <>
          <Legend good={t.endpoint.succeeded} bad={t.endpoint.failedLegend} />
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

const Deliveries: FC<{ path: string; page: LogPage }> = ({ path, page }) => {
  const { may } = usePage();
  const { log: t } = useLook().t;
  const mayResend = may("resend");
  const empty = page.state !== "all" ? t.emptyState : may("send_test") ? t.empty : t.emptyReadOnly;
  const form = (table: Child) =>
    mayResend ? (
      <form method="post" action={`${path}/resend`}>
        {table}
        <div class="actions">
          <CheckAll label={t.selectAll} />
          <button type="submit">{t.resendSelected}</button>
        </div>
      </form>
    ) : (
      <div>{table}</div>
    );
  return <DeliveryLog path={path} page={page} empty={empty} mayPick={mayResend} form={form} />;
};

function targetText({ t }: Look, { url }: Destination): string {
  const kind = kindNameOf(url);
  return kind === "https" ? url : kind === "poll" ? t.polling.target : t.endpoint.notHttps;
}

const Settings: FC<{ row: Destination }> = ({ row }) => {
  const look = useLook();
  const { t, f } = look;
  const view = destinationView(row);
  const limits = limitsOf(row);
  const headers = Object.entries(view.headers).map(([name, mask]) =>
    name === "" ? t.endpoint.unreadable : `${name}: ${mask}`,
  );
  const lines = (texts: readonly string[]) => texts.map((text) => <div>{text}</div>);
  const shown: readonly (readonly [string, Child] | false)[] = [
    [t.endpoint.address, targetText(look, row)],
    [t.endpoint.events, view.event_types === null ? t.endpoint.allEvents : view.event_types.join(", ")],
    view.filter !== null && [
      t.endpoint.filter,
      <pre tabindex={0}>{indented(JSON.stringify(view.filter))}</pre>,
    ],
    [t.endpoint.headers, headers.length === 0 ? t.none : lines(headers)],
    [t.signing.body, t.signing.bodies[view.body]],
    [
      t.endpoint.signature,
      lines(formsOf(row.signatureForms).map((form) => `${form.form}: ${recipeOf(form).header}`)),
    ],
    row.certification !== null && [
      t.certification.title,
      certificationSummary(t.certification, certificationIn(row.certification)),
    ],
    row.expiresAt !== null && [
      t.endpoint.subscription,
      t.endpoint.subscriptionUntil(f.moment(row.expiresAt)),
    ],
    [
      t.endpoint.limits,
      t.endpoint.limitsText(f.count(limits.max_concurrency), f.count(limits.rate_per_second)),
    ],
  ];
  return (
    <Section id="settings" title={t.endpoint.settings}>
      <dl class="settings">
        {shown.map(
          (one) =>
            one && (
              <>
                <dt>{one[0]}</dt>
                <dd>{one[1]}</dd>
              </>
            ),
        )}
      </dl>
    </Section>
  );
};

/** Takes two clicks: the first one only opens the form. */
const Secret: FC<{ path: string; row: Destination; faults: FieldFaults }> = ({ path, row, faults }) => {
  const { now } = usePage();
  const { t, f } = useLook();
  const previous = previousSecrets(row.previousSecrets, now);
  const last = Math.max(...previous.map(({ expires_at }) => expires_at));
  const fault = faults.overlap_hours ?? faults.overlap_s;
  const labels = { overlap_hours: t.secret.overlap };
  const form = portalForm({ overlap_hours: 24 }, labels, fault ? { overlap_hours: fault } : {});
  return (
    <Section id="secret-head" title={t.secret.title}>
      <div class="stack">
        <p>{t.secret.text}</p>
        {previous.length > 0 && <p>{t.secret.previous(f.until(last, now))}</p>}
        <details open={fault !== undefined}>
          <summary>{t.secret.rotate}</summary>
          <form class="stack" method="post" action={`${path}/rotate`}>
            <input type="hidden" name="secret_version" value={String(row.secretVersion)} autocomplete="off" />
            <TextField form={form} name="overlap_hours" type="number" range={{ min: 0, max: 168 }} />
            <div class="actions">
              <button type="submit">{t.secret.create}</button>
              <span class="hint">{t.secret.once}</span>
            </div>
          </form>
        </details>
      </div>
    </Section>
  );
};

const Deletion: FC<{ path: string }> = ({ path }) => {
  const { endpoint: t } = useLook().t;
  return (
    <Section id="deletion" title={t.delete}>
      <details>
        <summary>{t.delete}</summary>
        <form class="stack" method="post" action={`${path}/delete`}>
          <p>{t.deleteText}</p>
          <div class="actions">
            <button type="submit" class="danger">
              {t.deleteConfirm}
            </button>
          </div>
        </form>
      </details>
    </Section>
  );
};
