/** Signing in with an API key, and out again. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { type Authenticate, readToken } from "../../api/auth.ts";
import { Brand, showPage } from "../components/layout.tsx";
import { closeSession, type DashboardContext, type DashboardEnv, openSession } from "../session.ts";

/** Registered before the door. */
export function registerSignIn(app: Hono<DashboardEnv>, authenticate: Authenticate): void {
  app.post("/dashboard/sign-in", async (c) => {
    const { key } = await c.req.parseBody();
    const principal = typeof key === "string" ? await authenticate(c.get("services"), key.trim()) : undefined;
    if (principal === undefined) return askForKey(c, "That key is not valid.");
    if (!principal.scopes.includes("read")) return askForKey(c, "That key lacks the scope read.");
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

/** In place of a page that needs a session. */
export function askForKey(c: DashboardContext, fault?: string) {
  return showPage(
    c,
    { title: "Sign in", signedIn: false },
    <SignIn {...(fault !== undefined && { fault })} />,
    401,
  );
}

const SignIn: FC<{ fault?: string }> = ({ fault }) => (
  <>
    <Brand />
    <div>
      <h1>Sign in</h1>
      <p class="lede">With an API key that may read. A key bound to a tenant shows that tenant alone.</p>
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

// §§ The customer's way in: a link that an admin has made. Following it shows a button and no more, so that a
// mail scanner or a chat that looks at links beforehand does not use it up.

const ENTER = "/dashboard/enter";

/** Registered before the door. */
export function registerPortal(app: Hono<DashboardEnv>): void {
  app.get(ENTER, async (c) => {
    const token = c.req.query("token") ?? "";
    const link = await linkOf(c, token);
    if (link === undefined) return refuse(c, "This link is not valid, or not any more.");
    return showPage(c, { title: "Enter", signedIn: false }, <Enter token={token} tenant={link.tenant} />);
  });

  app.post(ENTER, async (c) => {
    const { token } = await c.req.parseBody();
    const link = await linkOf(c, typeof token === "string" ? token : "");
    if (link === undefined) return refuse(c, "This link is not valid, or not any more.");
    const { id, keyId, tenant, scopes } = link;
    const isOpen = await openSession(c, { tenant, scopes, ...(keyId !== null && { key: keyId }) }, id);
    return isOpen ? c.redirect("/dashboard", 303) : refuse(c, "This link has been used.");
  });
}

/** A link without a tenant is none of ours: nobody enters everything by one. */
async function linkOf(c: DashboardContext, token: string) {
  const { config, now } = c.get("services");
  const claims = await readToken(config, "portal", token, now());
  if (claims === undefined || claims.tenant === null) return undefined;
  return { ...claims, tenant: claims.tenant };
}

function refuse(c: DashboardContext, fault: string) {
  const content = (
    <>
      <Brand />
      <div>
        <h1>{fault}</h1>
        <p class="lede">Go back to where you found it, and ask for a new one.</p>
      </div>
    </>
  );
  return showPage(c, { title: "No entry", signedIn: false }, content, 403);
}

const Enter: FC<{ token: string; tenant: string }> = ({ token, tenant }) => (
  <>
    <Brand />
    <div>
      <h1>Your webhooks</h1>
      <p class="lede break">{`The endpoints of ${tenant}: what was sent to them, and what waits and why.`}</p>
    </div>
    <form class="stack" method="post" action={ENTER}>
      <input type="hidden" name="token" value={token} />
      <button type="submit" class="main">
        Open
      </button>
    </form>
  </>
);
