/** Signing in with an API key, or by Cloudflare Access, and signing out. */
import type { Authenticate } from "../../../http/auth.ts";
import { overAnonymousLimit } from "../../../http/rate-limit.ts";
import { ANONYMOUS_REFUSAL } from "../../../rate-limits.ts";
import { FieldForm } from "../../ui/fields.tsx";
import { plural } from "../../ui/format.ts";
import { LOGOUT, ProductName, showPage, showServerError, showTooMany } from "../components/layout.tsx";
import { type Dashboard, type DashboardContext, type NotIdentified, signIn, signOut } from "../session.ts";

/** Registered before authentication. */
export function registerSignIn(app: Dashboard, authenticate: Authenticate): void {
  app.post("/dashboard/sign-in", async (c) => {
    const { key } = await c.req.parseBody();
    const services = c.get("services");
    const principal = await authenticate(services, typeof key === "string" ? key.trim() : "", c.req.raw);
    if (principal === undefined)
      return showSignIn(c, "This API key is not valid. Check that you copied all of it.");
    if (principal === "limited") {
      const { retryAfterS: seconds = 0 } = ANONYMOUS_REFUSAL;
      c.header("retry-after", String(seconds));
      return showSignIn(
        c,
        `Too many keys from your address were not valid. Wait ${plural(seconds, "second")}.`,
        429,
      );
    }
    if (!principal.scopes.includes("read"))
      return showSignIn(c, "This API key lacks the scope read. Use a key that has it.");
    await signIn(c, principal);
    return c.redirect("/dashboard", 303);
  });
}

export function registerSignOut(app: Dashboard): void {
  app.post("/dashboard/sign-out", async (c) => {
    if (c.get("visitor").principal.person) return c.redirect(LOGOUT, 303);
    await signOut(c);
    return c.redirect("/dashboard", 303);
  });
}

/** Answers visitors who are not signed in. A useless assertion counts as a request without a valid key. */
export async function refuseVisitor(c: DashboardContext, why: NotIdentified) {
  if (why === undefined) return showSignIn(c);
  if (why.kind === "unavailable") return showServerError(c, 503);
  const isOver = (await overAnonymousLimit(c.get("services"), c.req.raw)) !== undefined;
  if (isOver) return showTooMany(c, ANONYMOUS_REFUSAL.retryAfterS ?? 0);
  return why.kind === "unnamed"
    ? showSignIn(c, `${why.name} has no role here: no entry of ACCESS_ROLES names you.`, 403)
    : showSignIn(c, `The assertion of Cloudflare Access ${why.fault}.`);
}

function showSignIn(c: DashboardContext, fault?: string, status: 401 | 403 | 429 = 401) {
  const mark = fault !== undefined && ({ "aria-invalid": "true", "aria-describedby": "fault" } as const);
  return showPage(
    c,
    { title: "Sign in", signedIn: false },
    <>
      <ProductName />
      <div>
        <h1>Sign in</h1>
        <p class="lede">
          Use an API key with the scope <code>read</code>. A tenant's key shows that tenant only.
        </p>
      </div>
      <FieldForm action="/dashboard/sign-in" submit="Sign in">
        <label>
          API key
          <input type="password" name="key" required autocomplete="current-password" autofocus {...mark} />
        </label>
        {fault !== undefined && (
          <p class="fault" id="fault" role="alert">
            {fault}
          </p>
        )}
      </FieldForm>
    </>,
    status,
  );
}
