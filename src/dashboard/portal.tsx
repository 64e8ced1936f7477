/**
 * The customer's way in: a link that an admin has made. Following it shows a button and no more, so that a
 * mail scanner or a chat that looks at links beforehand does not use it up.
 */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { readToken } from "../api/signed-token.ts";
import type { DashboardContext, DashboardEnv } from "./context.ts";
import { Brand, showPage } from "./layout.tsx";
import { openSession } from "./session.ts";

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
