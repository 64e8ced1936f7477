/** The page of one endpoint: its state, its traffic, its deliveries, and its settings. */
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
import { FieldForm, Input } from "../../ui/fields.tsx";
import { type Form, indented } from "../../ui/format.ts";
import {
  Banner,
  CheckAll,
  Facts,
  FigureList,
  Fold,
  OutcomeNotice,
  Press,
  Section,
  Top,
} from "../../ui/parts.tsx";
import { isUnderWay, ReplayProgress } from "../../ui/replay-progress.tsx";
import { SecretRotation } from "../../ui/secret-page.tsx";
import { formTexts } from "../../ui/setting-texts.ts";
import { TransformSummary } from "../../ui/transform-page.tsx";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import { type PortalStyle, usePortal } from "../look.ts";
import { type FieldFaults, portalForm } from "../problems.ts";
import { callerInPortal, type Portal, type PortalContext } from "../session.ts";
import { portalStatusText } from "../state-text.ts";
import { portalView } from "../view.ts";
import { statusOfRow } from "./endpoints.tsx";

export function registerEndpoint(app: Portal): void {
  app.get("/portal/endpoints/:id", (c) => showEndpoint(c, c.req.param("id")));
}

/** The result of a form on the page, if it is not a redirect. */
type Shown = Readonly<{
  faults?: FieldFaults;
  /** The form that has these faults. */
  typed?: Form;
  notice?: string;
}>;

export async function showEndpoint(c: PortalContext, id: string, shown: Shown = {}) {
  const { faults = {}, typed = {}, notice } = shown;
  const found = await getDestination(callerInPortal(c), id);
  if (found.kind !== "ok") return showPortalNotFound(c);
  const row = found.value;
  const endpoint = await readEndpoint(c, row);
  const { figures, blocked, consumers } = endpoint;
  const page = portalView(c);
  const { now, may, t } = page;
  const path = `/portal/endpoints/${row.id}`;
  const status = statusOfRow(row, figures, now);
  const isFetched = isPolled(row);
  const { tone, text, label } = portalStatusText(page, status, now);
  const isFaulty = Object.keys(faults).length > 0;
  return showPortalPage(
    c,
    { title: nameOf(row), place: "endpoints", live: !isFaulty },
    <>
      <Top
        crumb={["/portal", t.endpoints]}
        title={nameOf(row)}
        lede={row.description !== null && shortUrl(row.url)}
      />
      {notice === undefined ? (
        <OutcomeNotice name={c.req.query("done")} />
      ) : (
        <output class="notice tone-good">{notice}</output>
      )}
      <Banner label={t.list.status} tone={tone} title={<strong>{label}</strong>}>
        <p>{isFetched && status.kind === "idle" ? t.polling.target : text}</p>
      </Banner>
      <Actions row={row} path={path} />
      {!isFetched && <Traffic {...endpoint} />}
      {blocked && <BlockedKeys page={blocked} />}
      {consumers && <Consumers list={consumers} />}
      {!isFetched && <Deliveries path={path} page={endpoint.deliveries} />}
      {may("resend") && <ResendMany path={path} replays={endpoint.replays} faults={faults} typed={typed} />}
      <div class="columns">
        <Settings row={row} />
        <TransformSummary row={row} path={path} faults={endpoint.transformFaults} />
        {may("rotate_secret") && <Rotation path={path} row={row} faults={faults} typed={typed} />}
        {may("delete_endpoint") && (
          <Section id="deletion" title={t.endpoint.delete}>
            <Fold title={t.endpoint.delete}>
              <FieldForm action={`${path}/delete`} submit={t.endpoint.deleteConfirm} button="danger">
                <p>{t.endpoint.deleteText}</p>
              </FieldForm>
            </Fold>
          </Section>
        )}
      </div>
    </>,
    isFaulty ? 422 : 200,
  );
}

async function readEndpoint(c: PortalContext, row: Destination) {
  const services = c.get("services");
  const [[figures], backlogs, parts] = await Promise.all([
    queryGates(services, [row], { windows: ["24h"], series: true }),
    backlogOf(services, [row.id], COUNTED),
    readParts(callerInPortal(c), row, row.tenant, c.req.query()),
  ]);
  return { ...parts, figures, backlog: backlogs.get(row.id) ?? { waiting: 0, dead: 0 } };
}

type Endpoint = Awaited<ReturnType<typeof readEndpoint>>;

/** A visitor who may change or test nothing sees links in place of buttons. */
const Actions: FC<{ row: Destination; path: string }> = ({ row, path }) => {
  const { may, t } = usePortal();
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
    <section class="actions" aria-label={t.endpoint.actions}>
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
      {link("verify", t.verify.title)}
      {link("transform", t.transform.title, !isFetched && may("change_endpoint") && may("write_transform"))}
      {link("certification", t.certification.title, canCertify(row))}
      {link("notices", t.notices.title, may("change_endpoint") || row.noticeChannel !== null)}
      {!isAny && <span class="small soft">{t.readOnly}</span>}
    </section>
  );
};

const Traffic: FC<Pick<Endpoint, "figures" | "backlog">> = ({ figures, backlog: { waiting, dead } }) => {
  const { t, f } = usePortal();
  const series = figures?.windows["24h"]?.series ?? [];
  const { all, failed } = totalsOf(series);
  return (
    <section aria-label={t.endpoint.attempts24h}>
      <FigureList
        of={[
          [t.endpoint.attempts24h, f.count(all)],
          [t.log.states.waiting, f.atMost(waiting, COUNTED)],
          [t.log.states.dead, f.atMost(dead, COUNTED), { isBad: dead > 0 }],
        ]}
      />
      {all > 0 && (
        <>
          <Legend good={t.endpoint.succeeded} bad={t.endpoint.failedLegend} />
          <SeriesChart
            series={series}
            label={t.endpoint.chart(f.count(all), f.count(failed))}
            axis={[t.endpoint.hoursAgo, t.log.marks.now]}
          />
        </>
      )}
    </section>
  );
};

const Deliveries: FC<{ path: string; page: LogPage }> = ({ path, page }) => {
  const { may, t: texts } = usePortal();
  const t = texts.log;
  const mayResend = may("resend");
  const empty = page.state !== "all" ? t.emptyState : may("send_test") ? t.empty : t.emptyReadOnly;
  const form = (table: Child) =>
    mayResend ? (
      <FieldForm
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
      </FieldForm>
    ) : (
      <div>{table}</div>
    );
  return <DeliveryLog path={path} page={page} empty={empty} mayPick={mayResend} form={form} />;
};

function targetText({ t }: PortalStyle, { url }: Destination): string {
  const kind = kindNameOf(url);
  return kind === "https" ? url : kind === "poll" ? t.polling.target : t.endpoint.notHttps;
}

const Settings: FC<{ row: Destination }> = ({ row }) => {
  const look = usePortal();
  const { t, f } = look;
  const view = destinationView(row);
  const limits = limitsOf(row);
  const headers = Object.entries(view.headers).map(([name, mask]) =>
    name === "" ? t.endpoint.unreadable : `${name}: ${mask}`,
  );
  const lines = (texts: readonly string[]) => texts.map((text) => <div>{text}</div>);
  return (
    <Section id="settings" title={t.endpoint.settings}>
      <Facts
        rows={[
          [t.endpoint.address, targetText(look, row)],
          [t.endpoint.events, view.event_types === null ? t.endpoint.allEvents : view.event_types.join(", ")],
          view.filter !== null && [
            t.endpoint.filter,
            <pre tabindex={0}>{indented(JSON.stringify(view.filter))}</pre>,
          ],
          [t.form.labels.headers, headers.length === 0 ? t.none : lines(headers)],
          [t.signing.body, t.signing.bodies[view.body]],
          [
            t.endpoint.signature,
            lines(
              formsOf(row.signatureForms).map((form) => `${formTexts[form.form]}: ${recipeOf(form).header}`),
            ),
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
        ]}
      />
    </Section>
  );
};

type FormProps = Readonly<{ path: string; faults: FieldFaults; typed: Form }>;

const Rotation: FC<FormProps & Readonly<{ row: Destination }>> = ({ path, row, faults, typed }) => {
  const fault = faults.overlap_hours ?? faults.overlap_s;
  const labels = { overlap_hours: usePortal().t.secret.overlap };
  const form = portalForm({ overlap_hours: 24, ...typed }, labels, fault ? { overlap_hours: fault } : {});
  return <SecretRotation path={path} row={row} form={form} isOpen={fault !== undefined} />;
};

const includes = ["dead", "missing", "delivered"] as const;

/** @param props `replays`: the newest first */
type ResendProps = FormProps & Readonly<{ replays: readonly Replay[] }>;

/** The form that sends many deliveries of an endpoint again, and the progress of the latest of these replays. */
const ResendMany: FC<ResendProps> = ({ path, replays, faults: { since }, typed }) => {
  const { now, t } = usePortal();
  const { resend } = t;
  const labels = { include: resend.which, since: resend.since };
  const form = portalForm(
    { since: isoTime(now - DAY_MS).slice(0, 16), ...typed },
    labels,
    since ? { since } : {},
  );
  return (
    <Section id="replays" title={resend.title}>
      <p>{resend.text}</p>
      {replays.some(isUnderWay) ? (
        <p class="small soft">{resend.underWay}</p>
      ) : (
        <FieldForm form={form} hasNotice={false} action={`${path}/replay`} submit={resend.begin} button="">
          <div class="fields">
            <Input name="include" options={includes.map((name) => [name, resend[name]])} />
            <Input name="since" kind="time" required />
          </div>
        </FieldForm>
      )}
      {replays.map((replay) => (
        <ReplayProgress path={path} replay={replay} />
      ))}
    </Section>
  );
};
