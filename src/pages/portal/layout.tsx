/** The frame of every page of the portal, and the pages for missing objects, failures and refusals. */
import { raw } from "hono/html";
import type { Child, FC } from "hono/jsx";
import { portalThemes } from "../../core/portal-access.ts";
import type { Refused, Result } from "../../core/result.ts";
import type { Caller } from "../../features/service.ts";
import { PageProvider } from "../ui/page.tsx";
import { answerPage, type PageStatus } from "../ui/page-answer.ts";
import { Press, Select } from "../ui/parts.tsx";
import { attempt, statusOfRefused } from "../ui/services.ts";
import { accentPath, assetPath } from "./assets.ts";
import { usePortal } from "./look.ts";
import { sentenceOf } from "./problems.ts";
import { callerInPortal, type PortalContext } from "./session.ts";
import type { Texts } from "./texts/en.ts";
import { texts } from "./texts/languages.ts";
import { portalView } from "./view.ts";

type Frame = Readonly<{
  title: string;
  place?: "endpoints" | "event-types";
  /** Whether the page refreshes itself while it is visible. */
  live?: boolean;
}>;

export async function showPortalPage(
  c: PortalContext,
  frame: Frame,
  content: Child,
  status: PageStatus = 200,
) {
  const view = portalView(c);
  const page = (
    <PageProvider value={view}>
      <main id="main" class="frame" tabindex={-1} {...(frame.live && { "data-live": "" })}>
        {content}
      </main>
    </PageProvider>
  );
  // The address of a form's result is not one to return to.
  const { pathname, search } = new URL(c.req.url);
  const path = c.req.method === "GET" ? pathname + search : "/portal";
  const isVisit = c.get("visitor") !== undefined;
  return answerPage(c, page, status, (main) => (
    <PageProvider value={view}>
      <Page frame={frame} main={main} path={path} isVisit={isVisit} />
    </PageProvider>
  ));
}

type PageProps = Readonly<{ frame: Frame; main: Child; path: string; isVisit: boolean }>;

const Page: FC<PageProps> = ({ frame, main, path, isVisit }) => {
  const { t, language, theme, brand, origins } = usePortal();
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
          {isVisit && <PortalTop place={frame.place} />}
          {main}
          {isVisit && <Foot path={path} live={frame.live ?? false} />}
        </body>
      </html>
    </>
  );
};

const PortalTop: FC<{ place: Frame["place"] }> = ({ place }) => {
  const { t, returnUrl, brand } = usePortal();
  return (
    <>
      <a class="skip" href="#main">
        {t.skip}
      </a>
      <header class="top">
        <div class="frame">
          <BrandName />
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
            <Press action="/portal/leave" label={t.leave} of="plain" />
          </div>
        </div>
      </header>
    </>
  );
};

/** The logo is beside the name, so it has no text. */
export const BrandName: FC = () => {
  const { brand, t } = usePortal();
  return (
    <a class="brand" href="/portal">
      {brand.logo ? <img src={brand.logo} alt="" height={32} referrerpolicy="no-referrer" /> : null}
      <span>{brand.name ?? t.yourWebhooks}</span>
    </a>
  );
};

const Foot: FC<{ path: string; live: boolean }> = ({ path, live }) => {
  const { t, language, theme } = usePortal();
  return (
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
        <Select
          label={t.theme}
          name="theme"
          of={portalThemes.map((name) => [name, t.themes[name]])}
          chosen={theme}
        />
        <button type="submit" class="tiny">
          {t.apply}
        </button>
      </form>
    </footer>
  );
};

/** A page of one sentence, and a link. */
function showSentence(c: PortalContext, title: string, text: Child, status: PageStatus) {
  return showPortalPage(
    c,
    { title },
    <section>
      <h1>{title}</h1>
      <p class="lede">
        {text} <a href="/portal">{c.get("look").t.notFound.back}</a>
      </p>
    </section>,
    status,
  );
}

export function showPortalNotFound(c: PortalContext) {
  const { title, text } = c.get("look").t.notFound;
  return showSentence(c, title, text, 404);
}

/** @param status 503 if the failure is transient */
export function showPortalServerError(c: PortalContext, status: 500 | 503) {
  const { title, soon, again } = c.get("look").t.failed;
  if (status === 503) c.header("retry-after", "5");
  return showSentence(c, title, `${status === 503 ? `${soon} ` : ""}${again}`, status);
}

/** For a visitor that requests too much. */
export function showPortalTooMany(c: PortalContext, seconds: number) {
  c.header("retry-after", String(seconds));
  return showPortalRefusal(c, c.get("look").t.refused.busy, "/portal", 429);
}

/** For a form that no browser has sent. */
export function showPortalUnreadableForm(c: PortalContext, status: 400 | 413) {
  return showPortalRefusal(c, c.get("look").t.refused.general, "/portal", status);
}

/** Shown if a visitor lacks the right for a request, or if a request was refused. */
export function showPortalRefusal(c: PortalContext, sentence: string, back: string, status: PageStatus) {
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
        <a href={back}>{t.backToSender}</a>
      </p>
    </section>,
    status,
  );
}

export function showRefused(c: PortalContext, refused: Refused, back: string, sentence?: string) {
  const { kind } = refused;
  const status = kind === "not_found" ? 404 : kind === "forbidden" ? 403 : statusOfRefused(refused);
  return showPortalRefusal(c, sentence ?? sentenceOf(c.get("look"), refused), back, status);
}

/** Where to redirect to after an action, so that reloading the page does not repeat it. */
export function portalOutcomeAt(path: string, outcome: keyof Texts["done"], anchor = ""): string {
  return `${path}?done=${outcome}${anchor}`;
}

/** Back to the page, which shows the result; or the refusal. */
export async function actInPortal(
  c: PortalContext,
  act: (caller: Caller) => Promise<Result<unknown>>,
  [path, outcome, anchor]: Parameters<typeof portalOutcomeAt>,
  back = path,
) {
  const done = await attempt(callerInPortal(c), act, undefined);
  return done.kind === "ok"
    ? c.redirect(portalOutcomeAt(path, outcome, anchor), 303)
    : showRefused(c, done, back);
}
