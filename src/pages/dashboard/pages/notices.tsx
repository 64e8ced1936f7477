/** The notice channel of a destination, which its tenant may set in the portal too. */
import type { Hono } from "hono";
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
import {
  type NoticeFaults,
  NoticeForm,
  noticeFaults,
  noticeInput,
  noticeTexts,
} from "../../ui/notice-form.tsx";
import { Crumb } from "../../ui/parts.tsx";
import { attempt, attemptWith } from "../../ui/services.ts";
import { showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, type DashboardContext, type DashboardEnv, mayCall } from "../session.ts";

const NOTICES = "/dashboard/destinations/:id/notices";

export function registerNoticePages(app: Hono<DashboardEnv>): void {
  app.get(NOTICES, (c) => showChannel(c, c.req.param("id")));

  app.post(NOTICES, async (c) => {
    const id = c.req.param("id");
    const typed: Form = await c.req.parseBody();
    const caller = callerOnPage(c);
    const set = await attemptWith(caller, newNoticeChannel, noticeInput(typed), (channel) =>
      setNoticeChannel(caller, { id, channel, requestUrl: c.req.url }),
    );
    if (set.kind === "ok") return showChannel(c, id, { done: noticeTexts.saved });
    if (set.kind !== "invalid") return showRefusal(c, set, `/dashboard/destinations/${id}`);
    return showChannel(c, id, { typed, faults: noticeFaults(set.errors ?? [], noticeTexts) });
  });

  app.post(`${NOTICES}/remove`, async (c) => {
    const id = c.req.param("id");
    const caller = callerOnPage(c);
    const removed = await attempt(caller, () => removeNoticeChannel(caller, id));
    return removed.kind === "ok"
      ? c.redirect(`/dashboard/destinations/${id}`, 303)
      : showRefusal(c, removed, `/dashboard/destinations/${id}`);
  });

  app.post(`${NOTICES}/test`, async (c) => {
    const id = c.req.param("id");
    const caller = callerOnPage(c);
    const tested = await attempt(caller, () => testNoticeChannel(caller, id));
    if (tested.kind !== "ok") return showRefusal(c, tested, `/dashboard/destinations/${id}/notices`);
    const { delivered, fault } = tested.value;
    return showChannel(
      c,
      id,
      delivered ? { done: noticeTexts.tested } : { failed: `${noticeTexts.fault}: ${fault}` },
    );
  });
}

type Shown = Readonly<{ typed?: Form; faults?: NoticeFaults; done?: string; failed?: string }>;

async function showChannel(
  c: DashboardContext,
  id: string,
  { typed, faults = {}, done, failed }: Shown = {},
) {
  const caller = callerOnPage(c);
  const found = await getDestination(caller, id);
  if (found.kind !== "ok") return showRefusal(c, found, "/dashboard");
  const channel = await getNoticeChannel(caller, id);
  return showPage(
    c,
    { title: noticeTexts.title },
    <>
      <section>
        <Crumb href={`/dashboard/destinations/${id}`}>{nameOf(found.value)}</Crumb>
        <h1>{noticeTexts.title}</h1>
        <p class="lede">{`The tenant ${found.value.tenant} gets a notice when something is wrong with this destination: at most one an hour.`}</p>
      </section>
      {done !== undefined && <output class="notice tone-good">{done}</output>}
      {failed !== undefined && <output class="notice tone-bad">{failed}</output>}
      <NoticeForm
        t={noticeTexts}
        path={`/dashboard/destinations/${id}`}
        channel={channel.kind === "ok" ? channel.value : undefined}
        kinds={noticeKindsOf(caller.services)}
        typed={typed}
        faults={faults}
        language="en"
        mayChange={mayCall(c, setNoticeChannel)}
        mayTest={mayCall(c, testNoticeChannel)}
      />
    </>,
    typed === undefined ? 200 : 422,
  );
}
