/** The page of an endpoint's transformation: read by every visitor, changed by those who may. */
import type { Hono } from "hono";
import { allows } from "../../../core/portal-access.ts";
import { kindNameOf } from "../../../delivery/kinds/sending.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { statusOfRefused } from "../../ui/services.ts";
import {
  readTransformPage,
  registerTransformForms,
  type ShownTransform,
  TransformPage,
  transformTyped,
} from "../../ui/transform-page.tsx";
import type { TransformWords } from "../../ui/transform-view.tsx";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { may } from "../may.ts";
import { PortalAgo } from "../parts.tsx";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";

const PATH = "/portal/endpoints/:id/transform";
const changing = [may("change_endpoint"), may("write_transform")] as const;

export function registerPortalTransform(app: Hono<PortalEnv>): void {
  registerTransformForms(app, {
    path: PATH,
    changing,
    previewing: [...changing, may("preview_endpoint")],
    callerOf: callerInPortal,
    find: (c, id) => getDestination(callerInPortal(c), id),
    show: showTransform,
    showMissing: showPortalNotFound,
    showRefused,
  });
}

/** A visitor learns of an author only whether it was somebody in the portal. */
export function portalTransformWords(look: Look, now: number): TransformWords {
  const { t, f } = look;
  return {
    t: t.transform,
    count: f.count,
    ago: (at) => <PortalAgo look={look} at={at} now={now} />,
    author: ({ kind }) => t.transform.authors[kind === "portal" ? "portal" : "sender"],
    deliveryPath: ({ id }) => `/portal/deliveries/${id}`,
  };
}

async function showTransform(c: PortalContext, id: string, { typed, ...shown }: ShownTransform = {}) {
  const caller = callerInPortal(c);
  const found = await getDestination(caller, id);
  if (found.kind !== "ok") return showPortalNotFound(c);
  const row = found.value;
  const read = await readTransformPage(caller, row);
  const look = c.get("look");
  const { access } = c.get("visitor");
  const { ready, version } = c.req.query();
  const { transform: t } = look.t;
  const mayChange = allows(access, "change_endpoint") && allows(access, "write_transform");
  return showPortalPage(
    c,
    { title: t.title, place: "endpoints" },
    <TransformPage
      {...read}
      {...shown}
      words={portalTransformWords(look, c.get("services").now())}
      row={row}
      destinationPath={`/portal/endpoints/${id}`}
      isSaved={c.req.query("done") === "saved"}
      path={PATH.replace(":id", id)}
      typed={typed ?? transformTyped(row, read.versions, { ready, version })}
      ready={ready}
      showsUrl={kindNameOf(row.url) === "https"}
      mayChange={mayChange}
      mayWriteCode={mayChange && allows(access, "write_code") && caller.services.functions !== undefined}
      mayPreview={allows(access, "preview_endpoint")}
    />,
    shown.refused ? statusOfRefused(shown.refused) : 200,
  );
}
