/**
 * Opening a visit by a portal link, and ending it. A link opens one visit. Following it only shows a button, so that a
 * mail scanner or a chat's link preview does not use it up; in a frame the script presses it.
 */
import { type PortalTheme, portalThemes } from "../../../core/portal-access.ts";
import { chooseAppearance, findInvitation, openVisit } from "../../../features/portal-links/visits.ts";
import { clientOf } from "../../../http/rate-limit.ts";
import { ANONYMOUS_REFUSAL, isOverAnonymousLimit } from "../../../rate-limits.ts";
import { Hidden, Submit } from "../../ui/parts.tsx";
import { BrandName, showPortalPage, showPortalTooMany } from "../layout.tsx";
import type { PortalStyle } from "../look.ts";
import {
  closeVisit,
  isInFrame,
  type Portal,
  type PortalContext,
  setLook,
  setVisitCookie,
} from "../session.ts";
import { languageNamed, texts } from "../texts/languages.ts";

const PATH = "/portal/enter";

/** Registered before a visit is required. */
export function registerEnter(app: Portal): void {
  app.get(PATH, async (c) => {
    const token = c.req.query("token") ?? "";
    const link = await chosenLink(c, token, c.req.query());
    if (link === "limited") return refuseLimited(c);
    if (link === undefined) return refuseInvalid(c);
    const { t, language, theme } = c.get("look");
    const to = (name: string) => `${PATH}?${new URLSearchParams({ token, language: name, theme })}`;
    return showPortalPage(
      c,
      { title: t.enter.title },
      <>
        <BrandName />
        <div>
          <h1>{t.enter.title}</h1>
          <p class="lede">{t.enter.lede}</p>
        </div>
        <form class="stack" method="post" action={PATH} data-enter="">
          <Hidden of={{ token, language, theme, framed: "" }} />
          <Submit>{t.enter.open}</Submit>
        </form>
        <nav class="languages" aria-label={t.language}>
          {Object.entries(texts).map(([name, { languageName }]) => (
            <a
              href={to(name)}
              lang={name}
              hreflang={name}
              {...(name === language && { "aria-current": "true" })}
            >
              {languageName}
            </a>
          ))}
        </nav>
      </>,
    );
  });

  app.post(PATH, async (c) => {
    const form = await c.req.parseBody();
    const link = await chosenLink(c, typeof form.token === "string" ? form.token : "", form);
    if (link === "limited") return refuseLimited(c);
    if (link === undefined) return refuseInvalid(c);
    const mayBeFramed = c.get("look").origins.length > 0;
    const isFramed = mayBeFramed && (isInFrame(c) || form.framed === "1");
    const visit = await openVisit(c.get("services"), link);
    if (visit === undefined) return refuse(c, (t) => t.enter.used);
    setVisitCookie(c, visit, isFramed);
    return c.redirect("/portal", 303);
  });
}

/** Registered where a visit is required. */
export function registerVisit(app: Portal): void {
  app.post("/portal/leave", async (c) => {
    const { returnUrl } = c.get("look");
    await closeVisit(c);
    // In a frame the sender's page would be shown within itself.
    return returnUrl === null || isInFrame(c) ? c.redirect("/portal", 303) : showLeft(c, returnUrl);
  });

  app.post("/portal/preferences", async (c) => {
    const form = await c.req.parseBody();
    const visitor = c.get("visitor");
    const language = languageNamed(form.language) ?? visitor.visit.language;
    const theme = themeNamed(form.theme) ?? visitor.visit.theme;
    await chooseAppearance(c.get("services"), visitor, { language, theme });
    const back = typeof form.back === "string" && isOwnPath(form.back) ? form.back : "/portal";
    return c.redirect(back, 303);
  });
}

/** Shown instead of any page that requires a visit. */
export function showEnded(c: PortalContext) {
  return refuse(c, (t) => t.enter.ended, 401);
}

/** A form may not lead to another site: a redirect is not held by the form's policy in every browser. */
function isOwnPath(path: string): boolean {
  return /^\/portal(\/[\w/-]*)?(\?[\w.=&%-]*)?$/.test(path);
}

/**
 * The link, with the language and theme that the address or the form requests; sets the view of the page. See
 * `findInvitation`.
 */
async function chosenLink(c: PortalContext, token: string, asked: Readonly<Record<string, unknown>>) {
  const link = await findInvitation(c.get("services"), token);
  if (link === undefined || link === "limited") return link;
  const language = languageNamed(asked.language) ?? link.visit.language;
  const theme = themeNamed(asked.theme) ?? svixTheme(asked.darkMode) ?? link.visit.theme;
  const visit = { ...link.visit, language, theme };
  setLook(c, visit, link.settings);
  return { ...link, visit };
}

/** Guesses of links count as requests without a valid key do. */
async function refuseInvalid(c: PortalContext) {
  const client = clientOf(c.req.raw);
  const isOver = client !== undefined && (await isOverAnonymousLimit(c.get("services"), client));
  return isOver ? refuseLimited(c) : refuse(c, (t) => t.enter.invalid);
}

function refuseLimited(c: PortalContext) {
  return showPortalTooMany(c, ANONYMOUS_REFUSAL.retryAfterS ?? 0);
}

function themeNamed(name: unknown): PortalTheme | undefined {
  return portalThemes.find((theme) => theme === name);
}

/** The theme by the parameter that AppPortal of svix-react adds to the address. */
function svixTheme(darkMode: unknown): PortalTheme | undefined {
  return darkMode === "true" ? "dark" : darkMode === "auto" ? "auto" : undefined;
}

function refuse(c: PortalContext, title: (t: PortalStyle["t"]) => string, status: 401 | 403 = 403) {
  const { t } = c.get("look");
  return showPortalPage(
    c,
    { title: title(t) },
    <>
      <BrandName />
      <div>
        <h1>{title(t)}</h1>
        <p class="lede">{t.enter.again}</p>
      </div>
    </>,
    status,
  );
}

function showLeft(c: PortalContext, returnUrl: string) {
  const { t, brand } = c.get("look");
  return showPortalPage(
    c,
    { title: t.enter.ended },
    <section>
      <h1>{t.enter.ended}</h1>
      <p class="lede">
        <a href={returnUrl} rel="noreferrer">
          {brand.name ? t.backTo(brand.name) : t.backToSender}
        </a>
      </p>
    </section>,
  );
}
