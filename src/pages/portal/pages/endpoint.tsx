/** The page of one endpoint: what it does now, its traffic, its deliveries, and its settings. */
import type { Hono } from "hono";
import type { Child, FC } from "hono/jsx";
import { certificationIn } from "../../../core/certification.ts";
import { DAY_MS } from "../../../core/retention.ts";
import { formsOf, recipeOf } from "../../../core/signature-forms.ts";
import { canCertify } from "../../../delivery/certification.ts";
import { isPolled, kindNameOf } from "../../../delivery/kinds/sending.ts";
import { destinationView } from "../../../features/destinations/schema.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { COUNTED, queryGates } from "../../../features/stats/fleet.ts";
import { type Destination, limitsOf } from "../../../store/destination.ts";
import type { Replay } from "../../../store/replays.ts";
import { backlogOf } from "../../../store/stats.ts";
import { isoTime } from "../../../time.ts";
import { certificationSummary } from "../../ui/certification-page.tsx";
import { Legend, SeriesChart, totalsOf } from "../../ui/charts.tsx";
import { DeliveryLog, type LogPage } from "../../ui/delivery-log.tsx";
import { BlockedKeys, Consumers, readParts } from "../../ui/destination-parts.tsx";
import { nameOf, shortUrl } from "../../ui/destination-table.tsx";
import { Input, PostForm } from "../../ui/fields.tsx";
import { indented } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { Banner, CheckAll, FigureList, Fold, Press, Section, Top } from "../../ui/parts.tsx";
import { isUnderWay, ReplayProgress } from "../../ui/replay-progress.tsx";
import { SecretRotation } from "../../ui/secret-page.tsx";
import { TransformSummary } from "../../ui/transform-page.tsx";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import { type Look, useLook } from "../look.ts";
import { PortalOutcomeNotice } from "../parts.tsx";
import { type FieldFaults, portalForm } from "../problems.ts";
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
      <Top
        crumb={["/portal", t.endpoint.crumb]}
        title={nameOf(row)}
        lede={row.description !== null && shortUrl(row.url)}
      />
      {outcome}
      <Banner label={t.list.status} tone={tone} title={<strong>{label}</strong>}>
        <p>{isFetched && status.kind === "idle" ? t.polling.target : text}</p>
      </Banner>
      <Actions row={row} path={path} />
      {!isFetched && <Traffic {...props} />}
      {blocked && <BlockedKeys page={blocked} />}
      {consumers && <Consumers list={consumers} />}
      {!isFetched && <Deliveries path={path} page={deliveries} />}
      {may("resend") && <ResendMany path={path} replays={replays} faults={faults} />}
      <div class="columns">
        <Settings row={row} />
        <TransformSummary row={row} path={path} faults={transformFaults} />
        {may("rotate_secret") && <SecretRotation path={path} row={row} form={rotationForm(look, faults)} />}
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
      <FigureList
        of={[
          [t.endpoint.attempts24h, f.count(all)],
          [t.endpoint.waiting, f.atMost(waiting, COUNTED)],
          [t.endpoint.dead, f.atMost(dead, COUNTED), { isBad: dead > 0 }],
        ]}
      />
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
      <PostForm
        class=""
        action={`${path}/resend`}
        aside={
          <>
            <CheckAll label={t.selectAll} />
            <button type="submit">{t.resendSelected}</button>
          </>
        }
      >
        {table}
      </PostForm>
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

function rotationForm({ t }: Look, faults: FieldFaults) {
  const fault = faults.overlap_hours ?? faults.overlap_s;
  const labels = { overlap_hours: t.secret.overlap };
  return portalForm({ overlap_hours: 24 }, labels, fault ? { overlap_hours: fault } : {});
}

const Deletion: FC<{ path: string }> = ({ path }) => {
  const { endpoint: t } = useLook().t;
  return (
    <Section id="deletion" title={t.delete}>
      <Fold title={t.delete}>
        <PostForm action={`${path}/delete`} submit={t.deleteConfirm} button="danger">
          <p>{t.deleteText}</p>
        </PostForm>
      </Fold>
    </Section>
  );
};

const includes = ["dead", "missing", "delivered"] as const;

type ResendProps = Readonly<{
  path: string;
  /** The newest first. */
  replays: readonly Replay[];
  faults: FieldFaults;
}>;

/** The form that sends many deliveries of an endpoint again, and the progress of the latest of these replays. */
const ResendMany: FC<ResendProps> = ({ path, replays, faults: { since } }) => {
  const { now } = usePage();
  const { resend } = useLook().t;
  const labels = { include: resend.which, since: resend.since };
  const form = portalForm({ since: isoTime(now - DAY_MS).slice(0, 16) }, labels, since ? { since } : {});
  return (
    <Section id="replays" title={resend.title}>
      <p>{resend.text}</p>
      {replays.some(isUnderWay) ? (
        <p class="small soft">{resend.underWay}</p>
      ) : (
        <PostForm action={`${path}/replay`} submit={resend.begin} button="">
          <div class="fields">
            <Input
              kind="choice"
              form={form}
              name="include"
              options={includes.map((name) => [name, resend[name]])}
            />
            <Input form={form} name="since" kind="time" required />
          </div>
        </PostForm>
      )}
      {replays.map((replay) => (
        <ReplayProgress path={path} replay={replay} />
      ))}
    </Section>
  );
};
