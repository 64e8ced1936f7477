/** The conformance test of an endpoint: a visitor runs it against their own server, and sees the last result. */
import type { Hono } from "hono";
import { certificationIn } from "../../../core/certification.ts";
import { allows } from "../../../core/portal-access.ts";
import { certifyDestination } from "../../../features/destinations/certification.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { CertificationPanel } from "../../ui/certification-panel.tsx";
import { nameOf } from "../../ui/destination-table.tsx";
import { textIn } from "../../ui/format.ts";
import { Crumb } from "../../ui/parts.tsx";
import { attempt } from "../../ui/services.ts";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import { may } from "../may.ts";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { reasonText } from "../state-text.ts";

const PATH = "/portal/endpoints/:id/certification";

export function registerPortalCertification(app: Hono<PortalEnv>): void {
  app.get(PATH, async (c) => {
    const found = await getDestination(callerInPortal(c), c.req.param("id"));
    if (found.kind !== "ok") return showPortalNotFound(c);
    const row = found.value;
    const look = c.get("look");
    const { t, f } = look;
    const path = `/portal/endpoints/${row.id}`;
    return showPortalPage(
      c,
      { title: t.certification.title, place: "endpoints" },
      <CertificationPanel
        t={t.certification}
        f={{ duration: f.duration, moment: f.moment, error: (name) => reasonText(look, name) }}
        last={certificationIn(row.certification)}
        path={`${path}/certification`}
        mayRun={allows(c.get("visitor").access, "send_test")}
      >
        <Crumb href={path}>{nameOf(row)}</Crumb>
      </CertificationPanel>,
    );
  });

  app.post(PATH, may("send_test"), async (c) => {
    const id = c.req.param("id");
    const path = `/portal/endpoints/${id}/certification`;
    const caller = callerInPortal(c);
    const consent = textIn(await c.req.parseBody(), "consent") === "true";
    const done = await attempt(caller, () => certifyDestination(caller, { id, consent }));
    return done.kind === "ok" ? c.redirect(path, 303) : showRefused(c, done, path);
  });
}
