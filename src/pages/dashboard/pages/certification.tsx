/** The conformance test of a destination: an operator runs it with the consent of the endpoint's owner, and sees the last result. */
import type { Hono } from "hono";
import { certificationIn, certificationTexts } from "../../../core/certification.ts";
import { certifyDestination } from "../../../features/destinations/certification.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { isoTime } from "../../../time.ts";
import { type CertificationPageTexts, CertificationPanel } from "../../ui/certification-panel.tsx";
import { nameOf } from "../../ui/destination-table.tsx";
import { durationOf, textIn } from "../../ui/format.ts";
import { Crumb } from "../../ui/parts.tsx";
import { attempt } from "../../ui/services.ts";
import { causeText } from "../../ui/status-text.ts";
import { showNotFound, showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, callerWithinTenant, type DashboardEnv, mayCall } from "../session.ts";

const PATH = "/dashboard/destinations/:id/certification";

export function registerCertification(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const found = await getDestination(callerWithinTenant(c), c.req.param("id"));
    if (found.kind !== "ok") return showNotFound(c);
    const row = found.value;
    const path = `/dashboard/destinations/${row.id}`;
    return showPage(
      c,
      { title: texts.title },
      <CertificationPanel
        t={texts}
        f={{
          duration: durationOf,
          moment: (at) => isoTime(at).slice(0, 16).replace("T", " "),
          error: causeText,
        }}
        last={certificationIn(row.certification)}
        path={`${path}/certification`}
        mayRun={mayCall(c, certifyDestination)}
      >
        <Crumb href={path}>{nameOf(row)}</Crumb>
      </CertificationPanel>,
    );
  });

  app.post(PATH, async (c) => {
    const id = c.req.param("id");
    const path = `/dashboard/destinations/${id}/certification`;
    const caller = callerOnPage(c);
    const consent = textIn(await c.req.parseBody(), "consent") === "true";
    const done = await attempt(caller, () => certifyDestination(caller, { id, consent }));
    return done.kind === "ok" ? c.redirect(path, 303) : showRefusal(c, done, path);
  });
}

const texts: CertificationPageTexts = {
  ...certificationTexts,
  title: "Conformance test",
  lede: "Sends the receiver at most eight signed requests, right ones and forged ones, and judges each by the status and the time of its answer. Their ids begin with test_. They are not stored, not retried and not counted.",
  consent: "The owner of the endpoint agrees",
  run: "Run the test",
  certified: "The receiver has passed",
  notCertified: "The receiver has not passed",
  never: "Not tested yet",
};
