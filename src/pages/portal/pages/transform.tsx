/** The page of an endpoint's transformation: read by every visitor, changed by those who may. */
import type { Hono } from "hono";
import { allows } from "../../../core/portal-access.ts";
import type { Refused } from "../../../core/result.ts";
import { kindNameOf } from "../../../delivery/kinds/registry.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { restoreTransform, type TransformPreview } from "../../../features/destinations/transforms.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import type { Form } from "../../ui/format.ts";
import { attempt, statusOfRefused } from "../../ui/services.ts";
import {
  isOfForm,
  readTransformPage,
  saveTransform,
  TransformPage,
  transformTyped,
  tryTransform,
} from "../../ui/transform-page.tsx";
import type { TransformWords } from "../../ui/transform-view.tsx";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { may } from "../may.ts";
import { PortalAgo } from "../parts.tsx";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";

const PAGE = "/portal/endpoints/:id/transform";
const changing = [may("change_endpoint"), may("write_transform")] as const;

export function registerPortalTransform(app: Hono<PortalEnv>): void {
  app.get(PAGE, (c) => showTransform(c, c.req.param("id")));

  app.post(PAGE, ...changing, async (c) => {
    const id = c.req.param("id");
    const typed: Form = await c.req.parseBody();
    const caller = callerInPortal(c);
    const found = await getDestination(caller, id);
    if (found.kind !== "ok") return showPortalNotFound(c);
    const saved = await saveTransform(caller, found.value, typed, c.req.url);
    if (saved.kind === "ok") return c.redirect(`${pathOf(id)}?done=saved`, 303);
    return isOfForm(saved)
      ? showTransform(c, id, { typed, refused: saved })
      : showRefused(c, saved, pathOf(id));
  });

  app.post(`${PAGE}/preview`, ...changing, may("preview_endpoint"), async (c) => {
    const id = c.req.param("id");
    const typed: Form = await c.req.parseBody();
    const caller = callerInPortal(c);
    const found = await getDestination(caller, id);
    if (found.kind !== "ok") return showPortalNotFound(c);
    const tried = await tryTransform(caller, found.value, typed);
    if (tried.kind === "ok") return showTransform(c, id, { typed, preview: tried.value });
    return isOfForm(tried)
      ? showTransform(c, id, { typed, refused: tried })
      : showRefused(c, tried, pathOf(id));
  });

  app.post(`${PAGE}/restore`, ...changing, async (c) => {
    const id = c.req.param("id");
    const version = Number((await c.req.parseBody()).version);
    const caller = callerInPortal(c);
    const input = { id, version, requestUrl: c.req.url };
    const restored = await attempt(caller, () => restoreTransform(caller, input));
    return restored.kind === "ok"
      ? c.redirect(`${pathOf(id)}?done=saved`, 303)
      : showRefused(c, restored, pathOf(id));
  });
}

const pathOf = (id: string) => `/portal/endpoints/${id}/transform`;

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

type Shown = Readonly<{ typed?: Form; refused?: Refused; preview?: TransformPreview }>;

async function showTransform(c: PortalContext, id: string, { typed, ...shown }: Shown = {}) {
  const caller = callerInPortal(c);
  const found = await getDestination(caller, id);
  if (found.kind !== "ok") return showPortalNotFound(c);
  const row = found.value;
  const read = await readTransformPage(caller, row);
  const look = c.get("look");
  const { access } = c.get("visitor");
  const { ready, version } = c.req.query();
  const { transform: t } = look.t;
  return showPortalPage(
    c,
    { title: t.title, place: "endpoints" },
    <>
      <section>
        <p class="crumb">
          <a href={`/portal/endpoints/${id}`}>{nameOf(row)}</a>
        </p>
        <h1>{t.title}</h1>
        <p class="lede">{t.lede}</p>
      </section>
      {c.req.query("done") === "saved" && <output class="notice tone-good">{t.saved}</output>}
      <TransformPage
        {...read}
        {...shown}
        words={portalTransformWords(look, c.get("services").now())}
        row={row}
        path={pathOf(id)}
        typed={typed ?? transformTyped(row, read.versions, { ready, version })}
        ready={ready}
        showsUrl={kindNameOf(row.url) === "https"}
        mayChange={allows(access, "change_endpoint") && allows(access, "write_transform")}
        mayPreview={allows(access, "preview_endpoint")}
      />
    </>,
    shown.refused ? statusOfRefused(shown.refused) : 200,
  );
}
