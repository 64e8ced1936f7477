/** The frame of every page, and the part of it that is fetched again while it is looked at. */
import { raw } from "hono/html";
import type { Child, FC } from "hono/jsx";
import { assetPath, mark } from "../assets.ts";
import type { DashboardContext } from "../session.ts";

type Frame = Readonly<{
  title: string;
  /** Which entry of the navigation this is. */
  place?: "overview" | "lab";
  /** Whether the page is kept up to date while somebody looks at it. */
  live?: boolean;
  /** Whether there is anybody whose name and way out could be shown. */
  signedIn?: boolean;
}>;

/** Asked for with a part of a page: its `main` alone. */
const PART = "x-part";

/** Answers with a page; the status is 200 unless told. */
export function showPage(
  c: DashboardContext,
  frame: Frame,
  content: Child,
  status: 200 | 400 | 401 | 403 | 404 | 409 | 422 | 500 | 503 = 200,
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

const Page: FC<Frame & { main: Child; who?: string }> = ({ title, place, live = false, main, who }) => (
  <>
    {raw("<!doctype html>")}
    <html lang="en">
      <Head title={title} styleAt={assetPath("style.css")}>
        <meta name="robots" content="noindex" />
        <script src={assetPath("live.js")} defer></script>
      </Head>
      <body class={who === undefined ? "gatehouse wide" : ""}>
        {who !== undefined && <Top place={place} who={who} />}
        {main}
        {who !== undefined && <Foot live={live} />}
      </body>
    </html>
  </>
);

const Top: FC<{ place: Frame["place"]; who: string }> = ({ place, who }) => (
  <>
    <Skip />
    <header class="top">
      <div class="wide">
        <Brand />
        <nav aria-label="Pages">
          <a href="/dashboard" {...(place === "overview" && { "aria-current": "page" })}>
            Overview
          </a>
          <a href="/dashboard/lab" {...(place === "lab" && { "aria-current": "page" })}>
            Policy lab
          </a>
          <a href="/docs">API</a>
        </nav>
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

/** What every page of ours has in its head, and what only some have besides. */
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

/** Past the navigation, for whoever goes by keyboard. */
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
    {live && <span class="beat">Live</span>}
    <span>Times are UTC.</span>
    <a href="/docs">API reference</a>
  </footer>
);
