/** The frame of every page of the portal, and the pages for what is not found, failed or was refused. */
import { raw } from "hono/html";
import type { Child, FC } from "hono/jsx";
import { portalThemes } from "../../core/portal-access.ts";
import type { Refused } from "../../core/result.ts";
import { focusedOnFault } from "../ui/fault-focus.ts";
import { Options } from "../ui/parts.tsx";
import { statusOfRefused } from "../ui/services.ts";
import { accentPath, assetPath } from "./assets.ts";
import type { Look } from "./look.ts";
import { sentenceOf } from "./problems.ts";
import type { PortalContext } from "./session.ts";
import { texts } from "./texts/languages.ts";

type Frame = Readonly<{
  title: string;
  place?: "endpoints" | "event-types";
  /** Whether the page refreshes itself while it is visible. */
  live?: boolean;
}>;

/** The header of a request for a page's `main` alone. */
const PART = "x-part";

type Status = 200 | 400 | 401 | 403 | 404 | 413 | 422 | 429 | 500 | 503;

/** Responds with a page. A page that refuses something has the focus on what is at fault. */
export async function showPortalPage(c: PortalContext, frame: Frame, content: Child, status: Status = 200) {
  c.header("vary", PART);
  c.header("cache-control", "no-store");
  const page = (
    <main id="main" class="frame" tabindex={-1} {...(frame.live && { "data-live": "" })}>
      {content}
    </main>
  );
  const main = status === 200 ? page : await focusedOnFault(page);
  if (c.req.header(PART) === "main") return c.html(main, status);
  // The address of a form's result is no address to come back to.
  const { pathname, search } = new URL(c.req.url);
  const path = c.req.method === "GET" ? pathname + search : "/portal";
  const isVisit = c.get("visitor") !== undefined;
  return c.html(
    <Page frame={frame} main={main} look={c.get("look")} path={path} isVisit={isVisit} />,
    status,
  );
}

type PageProps = Readonly<{ frame: Frame; main: Child; look: Look; path: string; isVisit: boolean }>;

const Page: FC<PageProps> = ({ frame, main, look, path, isVisit }) => {
  const { t, language, theme, brand, origins } = look;
  const words = { live: t.live, late: t.late, copied: t.copied, notCopied: t.notCopied };
  return (
    <>
      {raw("<!doctype html>")}
      <html lang={language} data-theme={theme}>
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="robots" content="noindex" />
          <title>{`${frame.title} · ${brand.name ?? t.yourWebhooks}`}</title>
          <link rel="icon" href={assetPath("mark.svg")} type="image/svg+xml" />
          <link rel="stylesheet" href={assetPath("style.css")} />
          {brand.accent !== undefined && brand.accent !== null && (
            <link rel="stylesheet" href={accentPath(brand.accent)} />
          )}
          <script src={assetPath("portal.js")} defer></script>
        </head>
        <body
          class={isVisit ? "" : "signed-out frame"}
          data-words={JSON.stringify(words)}
          data-origins={JSON.stringify(origins)}
        >
          {isVisit && <Top look={look} place={frame.place} />}
          {main}
          {isVisit && <Foot look={look} path={path} live={frame.live ?? false} />}
        </body>
      </html>
    </>
  );
};

const Top: FC<{ look: Look; place: Frame["place"] }> = ({ look, place }) => {
  const { t, returnUrl, brand } = look;
  return (
    <>
      <a class="skip" href="#main">
        {t.skip}
      </a>
      <header class="top">
        <div class="frame">
          <BrandName look={look} />
          <nav aria-label={t.pages}>
            <a href="/portal" {...(place === "endpoints" && { "aria-current": "page" })}>
              {t.endpoints}
            </a>
            <a href="/portal/event-types" {...(place === "event-types" && { "aria-current": "page" })}>
              {t.eventTypes}
            </a>
          </nav>
          <div class="who">
            {returnUrl !== null && (
              <a href={returnUrl} target="_top" rel="noreferrer">
                {brand.name ? t.backTo(brand.name) : t.backToSender}
              </a>
            )}
            <form method="post" action="/portal/leave">
              <button type="submit" class="plain">
                {t.leave}
              </button>
            </form>
          </div>
        </div>
      </header>
    </>
  );
};

/** The logo stands beside the name, so it has no text of its own. */
export const BrandName: FC<{ look: Look }> = ({ look: { brand, t } }) => (
  <a class="brand" href="/portal">
    {brand.logo ? <img src={brand.logo} alt="" height={32} referrerpolicy="no-referrer" /> : null}
    <span>{brand.name ?? t.yourWebhooks}</span>
  </a>
);

const Foot: FC<{ look: Look; path: string; live: boolean }> = ({
  look: { t, language, theme },
  path,
  live,
}) => (
  <footer class="foot frame">
    {live && <span class="live-indicator">{t.live}</span>}
    <span>{t.timesAreUtc}</span>
    <form method="post" action="/portal/preferences">
      <input type="hidden" name="back" value={path} autocomplete="off" />
      <label>
        {t.language}
        <select name="language">
          {Object.entries(texts).map(([name, { languageName }]) => (
            <option value={name} selected={name === language} lang={name}>
              {languageName}
            </option>
          ))}
        </select>
      </label>
      <label>
        {t.theme}
        <select name="theme">
          <Options of={portalThemes.map((name) => [name, t.themes[name]])} chosen={theme} />
        </select>
      </label>
      <button type="submit" class="tiny">
        {t.apply}
      </button>
    </form>
  </footer>
);

/** For a visitor that requests too much. */
export function showPortalTooMany(c: PortalContext, seconds: number) {
  c.header("retry-after", String(seconds));
  return showPortalRefusal(c, c.get("look").t.refused.busy, "/portal", 429);
}

/** For a form that no browser has sent. */
export function showPortalUnreadableForm(c: PortalContext, status: 400 | 413) {
  return showPortalRefusal(c, c.get("look").t.refused.general, "/portal", status);
}

export function showPortalNotFound(c: PortalContext) {
  const { t } = c.get("look");
  return showPortalPage(
    c,
    { title: t.notFound.title },
    <section>
      <h1>{t.notFound.title}</h1>
      <p class="lede">
        {t.notFound.text} <a href="/portal">{t.notFound.back}</a>
      </p>
    </section>,
    404,
  );
}

/** @param status 503 where the trouble passes by itself */
export function showPortalServerError(c: PortalContext, status: 500 | 503) {
  const { t } = c.get("look");
  if (status === 503) c.header("retry-after", "5");
  return showPortalPage(
    c,
    { title: t.failed.title },
    <section>
      <h1>{t.failed.title}</h1>
      <p class="lede">
        {status === 503 ? `${t.failed.soon} ` : ""}
        {`${t.failed.again} `}
        <a href="/portal">{t.notFound.back}</a>
      </p>
    </section>,
    status,
  );
}

/** Shown where a visitor asks for what it may not do, or what it asked for was refused. */
export function showPortalRefusal(c: PortalContext, sentence: string, back: string, status: Status) {
  const { t } = c.get("look");
  return showPortalPage(
    c,
    { title: t.refused.title },
    <section class="narrow">
      <h1>{t.refused.title}</h1>
      <div class="notice tone-bad" role="alert">
        <p>{sentence}</p>
      </div>
      <p class="lede">
        <a href={back}>{t.refused.back}</a>
      </p>
    </section>,
    status,
  );
}

export function showRefused(c: PortalContext, refused: Refused, back: string) {
  const { kind } = refused;
  const status = kind === "not_found" ? 404 : kind === "forbidden" ? 403 : statusOfRefused(refused);
  return showPortalRefusal(c, sentenceOf(c.get("look"), refused), back, status);
}
