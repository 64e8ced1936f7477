/** The page of a destination's transformation. */
import type { Hono } from "hono";
import type { Refused } from "../../../core/result.ts";
import { getDestination, updateDestination } from "../../../features/destinations/service.ts";
import { restoreTransform, type TransformPreview } from "../../../features/destinations/transforms.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { countOf, type Form } from "../../ui/format.ts";
import { Ago } from "../../ui/parts.tsx";
import { attempt, statusOfRefused } from "../../ui/services.ts";
import {
  isOfForm,
  readTransformPage,
  saveTransform,
  TransformPage,
  transformTyped,
  tryTransform,
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

const PAGE = "/dashboard/destinations/:id/transform";

export function registerTransformPages(app: Hono<DashboardEnv>): void {
  app.get(PAGE, (c) => showTransform(c, c.req.param("id")));

  app.post(PAGE, async (c) => {
    const id = c.req.param("id");
    if (!mayCall(c, updateDestination)) return showReadOnly(c);
    const typed: Form = await c.req.parseBody();
    const caller = callerOnPage(c);
    const found = await getDestination(callerWithinTenant(c), id);
    if (found.kind !== "ok") return showNotFound(c);
    const saved = await saveTransform(caller, found.value, typed, c.req.url);
    if (saved.kind === "ok") return c.redirect(`${pathOf(id)}?done=saved`, 303);
    return isOfForm(saved)
      ? showTransform(c, id, { typed, refused: saved })
      : showRefusal(c, saved, pathOf(id));
  });

  app.post(`${PAGE}/preview`, async (c) => {
    const id = c.req.param("id");
    const typed: Form = await c.req.parseBody();
    const found = await getDestination(callerWithinTenant(c), id);
    if (found.kind !== "ok") return showNotFound(c);
    const tried = await tryTransform(callerOnPage(c), found.value, typed);
    if (tried.kind === "ok") return showTransform(c, id, { typed, preview: tried.value });
    return isOfForm(tried)
      ? showTransform(c, id, { typed, refused: tried })
      : showRefusal(c, tried, pathOf(id));
  });

  app.post(`${PAGE}/restore`, async (c) => {
    const id = c.req.param("id");
    const version = Number((await c.req.parseBody()).version);
    const caller = callerOnPage(c);
    const input = { id, version, requestUrl: c.req.url };
    const restored = await attempt(caller, () => restoreTransform(caller, input));
    return restored.kind === "ok"
      ? c.redirect(`${pathOf(id)}?done=saved`, 303)
      : showRefusal(c, restored, pathOf(id));
  });
}

const pathOf = (id: string) => `/dashboard/destinations/${id}/transform`;

export function transformWords(now: number): TransformWords {
  return {
    t,
    count: countOf,
    ago: (at) => <Ago at={at} now={now} />,
    author: (author) => actorText(author),
    deliveryPath: (delivery) => `/dashboard/events/${delivery.event_id}#${delivery.id}`,
  };
}

type Shown = Readonly<{ typed?: Form; refused?: Refused; preview?: TransformPreview }>;

async function showTransform(c: DashboardContext, id: string, { typed, ...shown }: Shown = {}) {
  const found = await getDestination(callerWithinTenant(c), id);
  if (found.kind !== "ok") return showNotFound(c);
  const row = found.value;
  const read = await readTransformPage(callerOnPage(c), row);
  const { ready, version } = c.req.query();
  const mayChange = mayCall(c, updateDestination);
  return showPage(
    c,
    { title: `${t.title}: ${nameOf(row)}` },
    <>
      <section>
        <p class="crumb">
          <a href={`/dashboard/destinations/${id}`}>{nameOf(row)}</a>
        </p>
        <h1>{t.title}</h1>
        <p class="lede">{t.lede}</p>
      </section>
      {c.req.query("done") === "saved" && <output class="notice tone-good">{t.saved}</output>}
      <TransformPage
        {...read}
        {...shown}
        words={transformWords(c.get("services").now())}
        row={row}
        path={pathOf(id)}
        typed={typed ?? transformTyped(row, read.versions, { ready, version })}
        ready={ready}
        showsUrl
        mayChange={mayChange}
        mayPreview
      />
    </>,
    shown.refused ? statusOfRefused(shown.refused) : 200,
  );
}
