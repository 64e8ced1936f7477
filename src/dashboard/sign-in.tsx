/** Signing in with an API key, and out again. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Authenticate } from "../api/auth.ts";
import type { DashboardContext, DashboardEnv } from "./context.ts";
import { Brand, showPage } from "./layout.tsx";
import { closeSession, openSession } from "./session.ts";

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
