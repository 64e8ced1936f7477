/** The notice channel of an endpoint: set, tested and removed by visitors who may. */
import type { Hono } from "hono";
import { allows } from "../../../core/portal-access.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { noticeKindsOf } from "../../../features/notices/channel.ts";
import { newNoticeChannel } from "../../../features/notices/schema.ts";
import {
  getNoticeChannel,
  removeNoticeChannel,
  setNoticeChannel,
  testNoticeChannel,
} from "../../../features/notices/service.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import type { Form } from "../../ui/format.ts";
import { type NoticeFaults, NoticeForm, noticeFaults, noticeInput } from "../../ui/notice-form.tsx";
import { Crumb } from "../../ui/parts.tsx";
import { attempt, attemptWith } from "../../ui/services.ts";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import { may } from "../may.ts";
import { portalOutcomeAt } from "../parts.tsx";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";

const NOTICES = "/portal/endpoints/:id/notices";

export function registerPortalNotices(app: Hono<PortalEnv>): void {
  app.get(NOTICES, (c) => showNotices(c, c.req.param("id")));

  app.post(NOTICES, may("change_endpoint"), async (c) => {
    const id = c.req.param("id");
    const typed: Form = await c.req.parseBody();
    const caller = callerInPortal(c);
    const set = await attemptWith(caller, newNoticeChannel, noticeInput(typed), (channel) =>
      setNoticeChannel(caller, { id, channel, requestUrl: c.req.url }),
    );
    if (set.kind === "ok") return c.redirect(portalOutcomeAt(`/portal/endpoints/${id}`, "saved"), 303);
    if (set.kind !== "invalid") return showRefused(c, set, `/portal/endpoints/${id}/notices`);
    const faults = noticeFaults(set.errors ?? [], c.get("look").t.notices);
    return showNotices(c, id, { typed, faults });
  });

  app.post(`${NOTICES}/remove`, may("change_endpoint"), async (c) => {
    const id = c.req.param("id");
    const caller = callerInPortal(c);
    const removed = await attempt(caller, () => removeNoticeChannel(caller, id));
    return removed.kind === "ok"
      ? c.redirect(portalOutcomeAt(`/portal/endpoints/${id}`, "saved"), 303)
      : showRefused(c, removed, `/portal/endpoints/${id}/notices`);
  });

  app.post(`${NOTICES}/test`, may("send_test"), async (c) => {
    const id = c.req.param("id");
    const caller = callerInPortal(c);
    const tested = await attempt(caller, () => testNoticeChannel(caller, id));
    if (tested.kind !== "ok") return showRefused(c, tested, `/portal/endpoints/${id}/notices`);
    return showNotices(c, id, { tested: tested.value });
  });
}

type Shown = Readonly<{
  typed?: Form;
  faults?: NoticeFaults;
  tested?: Readonly<{ delivered: boolean; fault: string | null }>;
}>;

async function showNotices(c: PortalContext, id: string, { typed, faults = {}, tested }: Shown = {}) {
  const caller = callerInPortal(c);
  const { t, language } = c.get("look");
  const { access } = c.get("visitor");
  const found = await getDestination(caller, id);
  if (found.kind !== "ok") return showPortalNotFound(c);
  const channel = await getNoticeChannel(caller, id);
  return showPortalPage(
    c,
    { title: t.notices.title, place: "endpoints" },
    <>
      <section>
        <Crumb href={`/portal/endpoints/${id}`}>{nameOf(found.value)}</Crumb>
        <h1>{t.notices.title}</h1>
        <p class="lede">{t.notices.lede}</p>
      </section>
      {tested && (
        <output class={`notice tone-${tested.delivered ? "good" : "bad"}`}>
          {tested.delivered ? t.notices.tested : `${t.notices.fault}: ${tested.fault}`}
        </output>
      )}
      <NoticeForm
        t={t.notices}
        path={`/portal/endpoints/${id}`}
        channel={channel.kind === "ok" ? channel.value : undefined}
        kinds={noticeKindsOf(caller.services)}
        typed={typed}
        faults={faults}
        language={language}
        mayChange={allows(access, "change_endpoint")}
        mayTest={allows(access, "send_test")}
      />
    </>,
    typed === undefined ? 200 : 422,
  );
}
