/**
 * The frame of every page, and the pages for what is not found, failed or was refused. The page's script fetches a
 * page's `main` alone, with the header `x-part`.
 */
import { raw } from "hono/html";
import type { Child, FC } from "hono/jsx";
import { assetPath, mark } from "../assets.ts";
import { type Refused, statusOfRefused } from "../internal-client.ts";
import type { DashboardContext } from "../session.ts";
import { RefusedNotice } from "./parts.tsx";

type Frame = Readonly<{
  title: string;
  /** The page's entry in the navigation. */
  place?: "overview" | "deliveries" | "event-types" | "simulator";
  /** What has been searched for. */
  query?: string;
  /** Whether the page refreshes itself while it is visible. */
  live?: boolean;
  /** Whether to show who is signed in, and the navigation; true by default. */
  signedIn?: boolean;
}>;

/** The header of a request for a page's `main` alone. */
const PART = "x-part";

/** Responds with a page. */
export function showPage(
  c: DashboardContext,
  frame: Frame,
  content: Child,
  status: 200 | 400 | 401 | 403 | 404 | 409 | 422 | 429 | 500 | 503 = 200,
) {
  c.header("vary", PART);
  c.header("cache-control", "no-store");
  const main = <Main live={frame.live ?? false}>{content}</Main>;
  if (c.req.header(PART) === "main") return c.html(main, status);
  const { signedIn = true } = frame;
  const who = signedIn ? (c.get("visitor").principal.tenant ?? "All tenants") : undefined;
  return c.html(<Page {...frame} main={main} {...(who !== undefined && { who })} />, status);
}

const Main: FC<{ live: boolean; children?: Child }> = ({ live, children }) => (
  <main id="main" class="wide" tabindex={-1} {...(live && { "data-live": "" })}>
    {children}
  </main>
);

const Page: FC<Frame & { main: Child; who?: string }> = ({
  title,
  place,
  query,
  live = false,
  main,
  who,
}) => (
  <>
    {raw("<!doctype html>")}
    <html lang="en">
      <Head title={title} styleAt={assetPath("style.css")}>
        <meta name="robots" content="noindex" />
        <script src={assetPath("live.js")} defer></script>
      </Head>
      <body class={who === undefined ? "signed-out wide" : ""}>
        {who !== undefined && <Top place={place} query={query} who={who} />}
        {main}
        {who !== undefined && <Foot live={live} />}
      </body>
    </html>
  </>
);

type TopProps = Readonly<{ place: Frame["place"]; query: string | undefined; who: string }>;

const Top: FC<TopProps> = ({ place, query, who }) => (
  <>
    <Skip />
    <header class="top">
      <div class="wide">
        <Brand />
        <nav aria-label="Pages">
          <a href="/dashboard" {...(place === "overview" && { "aria-current": "page" })}>
            Overview
          </a>
          <a href="/dashboard/deliveries" {...(place === "deliveries" && { "aria-current": "page" })}>
            Deliveries
          </a>
          <a href="/dashboard/event-types" {...(place === "event-types" && { "aria-current": "page" })}>
            Event types
          </a>
          <a href="/dashboard/simulator" {...(place === "simulator" && { "aria-current": "page" })}>
            Retry simulator
          </a>
          <a href="/docs">API</a>
        </nav>
        <search>
          <form method="get" action="/dashboard/search">
            <input
              type="search"
              name="q"
              value={query ?? ""}
              maxlength={256}
              aria-label="Search"
              placeholder="Search: id or words"
              autocomplete="off"
              spellcheck={false}
            />
          </form>
        </search>
        <div class="who">
          <span>{who}</span>
          <form method="post" action="/dashboard/sign-out">
            <button type="submit" class="plain">
              Sign out
            </button>
          </form>
        </div>
      </div>
    </header>
  </>
);

/** The head of every page; children are added to it. */
export const Head: FC<{ title: string; styleAt: string; children?: Child }> = ({
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

export const Brand: FC = () => (
  <a class="brand" href="/dashboard">
    {raw(mark.replace("<svg", '<svg aria-hidden="true"').replace("#0b6a72", "currentColor"))}
    Breakwater
  </a>
);

const Foot: FC<{ live: boolean }> = ({ live }) => (
  <footer class="foot wide">
    {live && <span class="live-indicator">Live</span>}
    <span>Times are UTC.</span>
    <a href="/docs">API reference</a>
  </footer>
);

export function showNotFound(c: DashboardContext) {
  return showPage(
    c,
    { title: "Not found", signedIn: c.get("visitor") !== undefined },
    <section>
      <h1>Page not found</h1>
      <p class="lede">
        It does not exist, or you have no access to it. <a href="/dashboard">Back to the overview</a>
      </p>
    </section>,
    404,
  );
}

/** @param status 503 where the trouble passes by itself */
export function showServerError(c: DashboardContext, status: 500 | 503) {
  if (status === 503) c.header("retry-after", "5");
  return showPage(
    c,
    { title: "Something went wrong", signedIn: false },
    <section>
      <h1>Something went wrong on our side</h1>
      <p class="lede">
        {status === 503 ? "It should be over in a few seconds. " : ""}It is safe to try again.{" "}
        <a href="/dashboard">Back to the overview</a>
      </p>
    </section>,
    status,
  );
}

/** Shown in place of a form to a visitor who may only read. */
export function showReadOnly(c: DashboardContext) {
  return showPage(
    c,
    { title: "Read only" },
    <section class="narrow">
      <h1>This session can only read</h1>
      <p class="lede">
        Changing something needs a key with the scope <code>admin</code>. Sign out, and sign in with such a
        key. <a href="/dashboard">Back to the overview</a>
      </p>
    </section>,
    403,
  );
}

/** Shown instead of a redirect back, when an action was refused. */
export function showRefusal(c: DashboardContext, refused: Refused, back: string) {
  return showPage(
    c,
    { title: "Request refused" },
    <section class="narrow">
      <h1>Request refused</h1>
      <RefusedNotice refused={refused} />
      <p class="lede">
        <a href={back}>Back</a>
      </p>
    </section>,
    statusOfRefused(refused),
  );
}
