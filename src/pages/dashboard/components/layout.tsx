/**
 * The frame of every page, and the pages for missing objects, failures and refusals. The page's script fetches only a
 * page's `main`, with the header `x-part`.
 */
import { raw } from "hono/html";
import type { Child, FC } from "hono/jsx";
import type { Refused, Result } from "../../../core/result.ts";
import { decideAction } from "../../../features/approvals/service.ts";
import { getAuditEntries } from "../../../features/audit/service.ts";
import { getDestination, updateDestination } from "../../../features/destinations/service.ts";
import { getGroupsWithState } from "../../../features/groups/service.ts";
import { getKeys } from "../../../features/keys/service.ts";
import { createPortalLink } from "../../../features/portal-links/service.ts";
import type { Caller } from "../../../features/service.ts";
import { assetPath, mark } from "../../ui/assets.ts";
import { plural } from "../../ui/format.ts";
import { PageProvider } from "../../ui/page.tsx";
import { answerPage, type PageStatus } from "../../ui/page-answer.ts";
import { Press, RefusedNotice } from "../../ui/parts.tsx";
import { attempt, statusOfRefused } from "../../ui/services.ts";
import type { Surface } from "../../ui/surface.ts";
import { type ActionOutcome, outcomeAt } from "../outcomes.ts";
import {
  callerOnPage,
  callerWithinTenant,
  type DashboardContext,
  type DashboardEnv,
  mayCall,
  mayNameTenant,
} from "../session.ts";
import { viewFor } from "../view.tsx";

/** The navigation. A page that needs a service is shown to those who may call it. */
const places = [
  { place: "overview", path: "", name: "Overview" },
  { place: "deliveries", path: "/deliveries", name: "Deliveries" },
  { place: "replays", path: "/replays", name: "Replays" },
  { place: "event-types", path: "/event-types", name: "Event types" },
  { place: "groups", path: "/groups", name: "Groups", needs: getGroupsWithState },
  { place: "keys", path: "/keys", name: "Keys", needs: getKeys },
  { place: "portal-links", path: "/portal-links", name: "Portal links", needs: createPortalLink },
  { place: "actions", path: "/actions", name: "Approvals", needs: decideAction },
  { place: "audit", path: "/audit", name: "Audit", needs: getAuditEntries },
  { place: "settings", path: "/settings", name: "Settings" },
  { place: "simulator", path: "/simulator", name: "Simulator" },
] as const;

type Place = (typeof places)[number]["place"] | "tenants";

type Frame = Readonly<{
  title: string;
  place?: Place;
  query?: string;
  /** Whether the page refreshes itself while it is visible. */
  live?: boolean;
  /** Whether to show who is signed in, and the navigation; true by default. */
  signedIn?: boolean;
  /** Why a form is shown again. */
  refused?: Refused | undefined;
}>;

export async function showPage(
  c: DashboardContext,
  frame: Frame,
  content: Child,
  status: PageStatus = frame.refused ? statusOfRefused(frame.refused) : 200,
) {
  const page = (
    <PageProvider value={viewFor(c)}>
      <main id="main" class="frame" tabindex={-1} {...(frame.live && { "data-live": "" })}>
        {content}
      </main>
    </PageProvider>
  );
  const { signedIn = true } = frame;
  const who = signedIn ? whoOf(c) : undefined;
  return answerPage(c, page, status, (main) => (
    <Page {...frame} main={main} {...(who !== undefined && { who })} />
  ));
}

/** The visitor at the top of a page; `maySwitch`: whether another tenant can be chosen. */
function whoOf(c: DashboardContext) {
  const { tenant, principal } = c.get("visitor");
  const shown = places.filter((place) => !("needs" in place) || mayCall(c, place.needs));
  return { tenant, maySwitch: mayNameTenant(c), person: principal.person, places: shown };
}

type Who = ReturnType<typeof whoOf>;

const Page: FC<Frame & { main: Child; who?: Who }> = ({ title, place, query, live = false, main, who }) => (
  <>
    {raw("<!doctype html>")}
    <html lang="en">
      <DocumentHead title={title} styleAt={assetPath("style.css")}>
        <meta name="robots" content="noindex" />
        <script src={assetPath("live.js")} defer></script>
      </DocumentHead>
      <body class={who === undefined ? "signed-out frame" : ""}>
        {who !== undefined && <Top place={place} query={query} who={who} />}
        {main}
        {who !== undefined && <Foot live={live} />}
      </body>
    </html>
  </>
);

type TopProps = Readonly<{ place: Place | undefined; query: string | undefined; who: Who }>;

const Top: FC<TopProps> = ({ place, query, who }) => (
  <>
    <Skip />
    <header class="top">
      <div class="frame">
        <ProductName />
        <details class="menu">
          <summary>Menu</summary>
          <nav aria-label="Pages">
            {who.places.map(({ place: name, path, name: text }) => (
              <a href={`/dashboard${path}`} {...(place === name && { "aria-current": "page" })}>
                {text}
              </a>
            ))}
          </nav>
        </details>
        <search>
          <form method="get" action="/dashboard/search">
            <input
              type="search"
              name="q"
              value={query ?? ""}
              maxlength={256}
              aria-label="Search"
              placeholder="ID or words"
              autocomplete="off"
              spellcheck={false}
            />
          </form>
        </search>
        <div class="who">
          <TenantShown who={who} isCurrent={place === "tenants"} />
          <PersonShown person={who.person} />
        </div>
      </div>
    </header>
  </>
);

/**
 * The address at which Cloudflare Access ends its session. A link, because a form may not lead to another site, to
 * which Access continues.
 */
export const LOGOUT = "/cdn-cgi/access/logout";

const PersonShown: FC<Pick<Who, "person">> = ({ person }) =>
  person === undefined ? (
    <Press action="/dashboard/sign-out" label="Sign out" of="plain" />
  ) : (
    <>
      <span class="break">{`${person.name}, role ${person.role}`}</span>
      <a href={LOGOUT}>Sign out</a>
    </>
  );

const TenantShown: FC<{ who: Who; isCurrent: boolean }> = ({ who: { tenant, maySwitch }, isCurrent }) =>
  maySwitch ? (
    <a class="break" href="/dashboard/tenants" {...(isCurrent && { "aria-current": "page" })}>
      <span class="hidden">Tenant: </span>
      {tenant ?? "All tenants"}
    </a>
  ) : (
    <span class="break">{tenant}</span>
  );

/** The head of every page; children are added to it. */
export const DocumentHead: FC<{ title: string; styleAt: string; children?: Child }> = ({
  title,
  styleAt,
  children,
}) => (
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>{`${title} · Breakwater`}</title>
    <link rel="icon" href={assetPath("mark.svg")} type="image/svg+xml" />
    <link rel="stylesheet" href={styleAt} />
    {children}
  </head>
);

/** Lets keyboard users skip the navigation. */
export const Skip: FC = () => (
  <a class="skip" href="#main">
    Skip to the content
  </a>
);

export const ProductName: FC = () => (
  <a class="brand" href="/dashboard">
    {raw(mark.replace("<svg", '<svg aria-hidden="true"').replace("#0b6a72", "currentColor"))}
    Breakwater
  </a>
);

const Foot: FC<{ live: boolean }> = ({ live }) => (
  <footer class="foot frame">
    {live && <span class="live-indicator">Live</span>}
    <span>Times are UTC.</span>
    <a href="/docs">API reference</a>
  </footer>
);

/**
 * A page of a heading and a few sentences.
 * @param frame `heading`: if it differs from the title
 */
function showSentences(
  c: DashboardContext,
  { heading, ...frame }: Frame & Readonly<{ heading?: string }>,
  lede: Child,
  status?: PageStatus,
) {
  const content = (
    <section class="narrow">
      <h1>{heading ?? frame.title}</h1>
      {lede}
    </section>
  );
  return showPage(c, frame, content, status);
}

const TO_OVERVIEW = <a href="/dashboard">Back to the overview</a>;

export function showNotFound(c: DashboardContext) {
  const visitor = c.get("visitor");
  const chosen = visitor?.principal.tenant === undefined ? visitor?.tenant : undefined;
  return showSentences(
    c,
    { title: "Not found", heading: "Page not found", signedIn: visitor !== undefined },
    <>
      <p class="lede">It does not exist, or you have no access to it. {TO_OVERVIEW}</p>
      {chosen !== undefined && (
        <p class="lede">
          {`You see only the tenant ${chosen}. `}
          <a href={`${new URL(c.req.url).pathname}?tenant=`}>Show all tenants</a>
        </p>
      )}
    </>,
    404,
  );
}

/** Shown to a visitor who has chosen an invalid name of a tenant. */
export function showNoTenant(c: DashboardContext) {
  return showSentences(
    c,
    { title: "No such tenant", heading: "No tenant can have this name" },
    <p class="lede">
      A tenant's name has 1 to 64 letters, digits and <code>_ . : -</code>.{" "}
      <a href="/dashboard/tenants?tenant=">Choose another tenant</a>, or show{" "}
      <a href="/dashboard?tenant=">all tenants</a>
    </p>,
    404,
  );
}

/** For a visitor that requests too much. */
export function showTooMany(c: DashboardContext, seconds: number) {
  c.header("retry-after", String(seconds));
  const lede = <p class="lede">{`Wait ${plural(seconds, "second")}, and try again.`}</p>;
  return showSentences(c, { title: "Too many requests", signedIn: false }, lede, 429);
}

/** For a form that no browser has sent. */
export function showUnreadableForm(c: DashboardContext, status: 400 | 413) {
  const [title, sentence] =
    status === 413
      ? ["The form is too large", "Shorten what you entered, and send it again."]
      : ["The form cannot be read", "Open the page again, and send the form once more."];
  const lede = (
    <p class="lede">
      {sentence} {TO_OVERVIEW}
    </p>
  );
  return showSentences(c, { title, signedIn: false }, lede, status);
}

/** @param status 503 if the failure is transient */
export function showServerError(c: DashboardContext, status: 500 | 503) {
  if (status === 503) c.header("retry-after", "5");
  return showSentences(
    c,
    { title: "Something went wrong", heading: "Something went wrong on our side", signedIn: false },
    <p class="lede">
      {status === 503 ? "It should be over in a few seconds. " : ""}It is safe to try again. {TO_OVERVIEW}
    </p>,
    status,
  );
}

/** Shown in place of a page or form that the visitor's key or role does not allow. */
export function showReadOnly(c: DashboardContext) {
  const { person } = c.get("visitor").principal;
  const heading = person ? `The role ${person.role} does not allow this` : "This session can only read";
  return showSentences(
    c,
    { title: "Not allowed", heading },
    <p class="lede">
      {person ? (
        "An entry of ACCESS_ROLES gives you this role; the operator can give you a higher one. "
      ) : (
        <>
          Changing something needs a key with the scope <code>admin</code>. Sign out, and sign in with such a
          key.{" "}
        </>
      )}
      {TO_OVERVIEW}
    </p>,
    403,
  );
}

/** Shown instead of a redirect back, when an action was refused. */
export function showRefusal(c: DashboardContext, refused: Refused, back: string) {
  return showSentences(
    c,
    { title: "Request refused", refused },
    <>
      <RefusedNotice refused={refused} />
      <p class="lede">
        <a href={back}>Back</a>
      </p>
    </>,
  );
}

/** Back to the page, which shows the result; or the refusal. */
export async function actAndReturn(
  c: DashboardContext,
  act: (caller: Caller) => Promise<Result<unknown>>,
  back: string,
  outcome: ActionOutcome,
) {
  const done = await attempt(callerOnPage(c), act, undefined);
  return done.kind === "ok" ? c.redirect(outcomeAt(back, outcome), 303) : showRefusal(c, done, back);
}

/** The dashboard, for the pages that it shares with the portal. */
export const dashboardSurface: Surface<DashboardEnv> = {
  destinations: "/dashboard/destinations",
  deliveries: "/dashboard/deliveries",
  actions: "/dashboard/actions",
  callerOf: callerOnPage,
  find: (c, id) => getDestination(callerWithinTenant(c), id),
  viewOf: viewFor,
  may: (action) => async (c, next) => {
    if (action === "change_endpoint" && !mayCall(c, updateDestination)) return showReadOnly(c);
    await next();
    return;
  },
  showPage,
  showMissing: showNotFound,
  showRefused: showRefusal,
};
