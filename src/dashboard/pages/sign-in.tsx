/**
 * Signing in, with an API key or by a portal link, and signing out. A portal link opens one session. Following it only
 * shows a button, so that a mail scanner or a chat's link preview does not use it up.
 */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { type Authenticate, readToken } from "../../api/auth.ts";
import { overAnonymousLimit } from "../../api/rate-limit.ts";
import { isLinkVoid } from "../../db/tenant-removal.ts";
import { Brand, showPage } from "../components/layout.tsx";
import { closeSession, type DashboardContext, type DashboardEnv, openSession } from "../session.ts";

/** Registered before authentication. */
export function registerSignIn(app: Hono<DashboardEnv>, authenticate: Authenticate): void {
  app.post("/dashboard/sign-in", async (c) => {
    const { key } = await c.req.parseBody();
    const services = c.get("services");
    const principal = typeof key === "string" ? await authenticate(services, key.trim()) : undefined;
    if (principal === undefined) {
      const refusal = await overAnonymousLimit(services, c.req.raw);
      if (refusal === undefined)
        return showSignIn(c, "This API key is not valid. Check that you copied all of it.");
      const seconds = refusal.headers.get("retry-after") ?? "";
      c.header("retry-after", seconds);
      return showSignIn(c, `Too many keys from your address were not valid. Wait ${seconds} seconds.`, 429);
    }
    if (!principal.scopes.includes("read"))
      return showSignIn(c, "This API key lacks the scope read. Use a key that has it.");
    await openSession(c, principal);
    return c.redirect("/dashboard", 303);
  });
}

export function registerSignOut(app: Hono<DashboardEnv>): void {
  app.post("/dashboard/sign-out", async (c) => {
    await closeSession(c);
    return c.redirect("/dashboard", 303);
  });
}

/** Shown instead of any page that requires a session. */
export function showSignIn(c: DashboardContext, fault?: string, status: 401 | 429 = 401) {
  return showPage(
    c,
    { title: "Sign in", signedIn: false },
    <SignInPage {...(fault !== undefined && { fault })} />,
    status,
  );
}

const SignInPage: FC<{ fault?: string }> = ({ fault }) => (
  <>
    <Brand />
    <div>
      <h1>Sign in</h1>
      <p class="lede">
        Use an API key with the scope <code>read</code>. A tenant's key shows that tenant only.
      </p>
    </div>
    <form class="stack" method="post" action="/dashboard/sign-in">
      <label>
        API key
        <input
          type="password"
          name="key"
          required
          autocomplete="current-password"
          autofocus
          {...(fault !== undefined && { "aria-invalid": "true", "aria-describedby": "fault" })}
        />
      </label>
      {fault !== undefined && (
        <p class="fault" id="fault" role="alert">
          {fault}
        </p>
      )}
      <button type="submit" class="main">
        Sign in
      </button>
    </form>
  </>
);

const PORTAL = "/dashboard/enter";
const NOT_VALID = "This link is not valid or has expired";
const USED = "This link has already been used";

/** Registered before authentication. */
export function registerPortal(app: Hono<DashboardEnv>): void {
  app.get(PORTAL, async (c) => {
    const token = c.req.query("token") ?? "";
    const link = await linkOf(c, token);
    if (link === undefined) return refuseLink(c, NOT_VALID);
    const page = <PortalPage token={token} tenant={link.tenant} />;
    return showPage(c, { title: "Your webhooks", signedIn: false }, page);
  });

  app.post(PORTAL, async (c) => {
    const { token } = await c.req.parseBody();
    const link = await linkOf(c, typeof token === "string" ? token : "");
    if (link === undefined) return refuseLink(c, NOT_VALID);
    const { id, keyId, tenant, scopes } = link;
    const isOpened = await openSession(c, { tenant, scopes, ...(keyId !== null && { key: keyId }) }, id);
    return isOpened ? c.redirect("/dashboard", 303) : refuseLink(c, USED);
  });
}

/** A link without a tenant is never valid: it would open the dashboard of all tenants. */
async function linkOf(c: DashboardContext, token: string) {
  const { config, db, now } = c.get("services");
  const claims = await readToken(config, "portal", token, now());
  if (claims === undefined || claims.tenant === null) return undefined;
  if (await isLinkVoid(db, claims.tenant, claims.expiresAt)) return undefined;
  return { ...claims, tenant: claims.tenant };
}

function refuseLink(c: DashboardContext, fault: string) {
  return showPage(
    c,
    { title: "Link refused", signedIn: false },
    <>
      <Brand />
      <div>
        <h1>{fault}</h1>
        <p class="lede">Go back to where you found the link, and request a new one.</p>
      </div>
    </>,
    403,
  );
}

const PortalPage: FC<{ token: string; tenant: string }> = ({ token, tenant }) => (
  <>
    <Brand />
    <div>
      <h1>Your webhooks</h1>
      <p class="lede break">{`The endpoints of ${tenant}: what was sent to them, what is waiting, and why.`}</p>
    </div>
    <form class="stack" method="post" action={PORTAL}>
      <input type="hidden" name="token" value={token} />
      <button type="submit" class="main">
        Open the dashboard
      </button>
    </form>
  </>
);
