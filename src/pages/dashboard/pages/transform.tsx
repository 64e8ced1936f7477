/** The page of a destination's transformation. */
import type { Hono } from "hono";
import { getDestination, updateDestination } from "../../../features/destinations/service.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { countOf } from "../../ui/format.ts";
import { Ago } from "../../ui/parts.tsx";
import { statusOfRefused } from "../../ui/services.ts";
import {
  readTransformPage,
  registerTransformForms,
  type ShownTransform,
  TransformPage,
  transformTyped,
} from "../../ui/transform-page.tsx";
import { transformTexts as t } from "../../ui/transform-texts.ts";
import type { TransformWords } from "../../ui/transform-view.tsx";
import { showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import {
  callerOnPage,
  callerWithinTenant,
  type DashboardContext,
  type DashboardEnv,
  mayCall,
} from "../session.ts";
import { actorText } from "./audit.tsx";

const PATH = "/dashboard/destinations/:id/transform";

export function registerTransformPages(app: Hono<DashboardEnv>): void {
  registerTransformForms(app, {
    path: PATH,
    changing: [async (c, next) => (mayCall(c, updateDestination) ? next() : showReadOnly(c))],
    previewing: [],
    callerOf: callerOnPage,
    find: (c, id) => getDestination(callerWithinTenant(c), id),
    show: showTransform,
    showMissing: showNotFound,
    showRefused: showRefusal,
  });
}

export function transformWords(now: number): TransformWords {
  return {
    t,
    count: countOf,
    ago: (at) => <Ago at={at} now={now} />,
    author: (author) => actorText(author),
    deliveryPath: (delivery) => `/dashboard/events/${delivery.event_id}#${delivery.id}`,
  };
}

async function showTransform(c: DashboardContext, id: string, { typed, ...shown }: ShownTransform = {}) {
  const found = await getDestination(callerWithinTenant(c), id);
  if (found.kind !== "ok") return showNotFound(c);
  const row = found.value;
  const read = await readTransformPage(callerOnPage(c), row);
  const { ready, version } = c.req.query();
  const mayChange = mayCall(c, updateDestination);
  return showPage(
    c,
    { title: `${t.title}: ${nameOf(row)}` },
    <TransformPage
      {...read}
      {...shown}
      words={transformWords(c.get("services").now())}
      row={row}
      destinationPath={`/dashboard/destinations/${id}`}
      isSaved={c.req.query("done") === "saved"}
      path={PATH.replace(":id", id)}
      typed={typed ?? transformTyped(row, read.versions, { ready, version })}
      ready={ready}
      showsUrl
      mayChange={mayChange}
      mayWriteCode={mayChange && c.get("services").functions !== undefined}
      mayPreview
    />,
    shown.refused ? statusOfRefused(shown.refused) : 200,
  );
}
