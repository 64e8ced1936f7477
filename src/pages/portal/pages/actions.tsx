/** The action that an agent of the visit has asked for: the visitor approves or refuses it. */
import type { Hono } from "hono";
import { type ActionView, getAction } from "../../../features/approvals/service.ts";
import { decide, decisions } from "../../../http/mcp/approval.ts";
import { ActionPanel } from "../../ui/action-panel.tsx";
import { Crumb } from "../../ui/parts.tsx";
import { attempt } from "../../ui/services.ts";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { callerInPortal, type PortalEnv } from "../session.ts";

export const ACTIONS = "/portal/actions";

export function registerActionPages(app: Hono<PortalEnv>): void {
  app.get(`${ACTIONS}/:id`, async (c) => {
    const found = await getAction(callerInPortal(c), c.req.param("id"));
    if (found.kind !== "ok") return showPortalNotFound(c);
    const { t } = c.get("look");
    const action = found.value;
    const title = actionTitle(t, action);
    return showPortalPage(
      c,
      { title, place: "endpoints" },
      <ActionPanel action={action} title={title} path={`${ACTIONS}/${action.id}`}>
        <Crumb href="/portal/agent">{t.agent.title}</Crumb>
      </ActionPanel>,
    );
  });

  for (const [step, decision] of decisions)
    app.post(`${ACTIONS}/:id/${step}`, async (c) => {
      const caller = callerInPortal(c);
      const id = c.req.param("id");
      const { origin } = new URL(c.req.url);
      const done = await attempt(caller, () => decide(caller, { id, decision, origin }));
      const at = `${ACTIONS}/${id}`;
      return done.kind === "ok" ? c.redirect(at, 303) : showRefused(c, done, at);
    });
}

/** The name of the action's tool, in the visitor's language. */
export function actionTitle({ actions }: Look["t"], { tool }: ActionView): string {
  const names: Readonly<Record<string, string>> = actions.tools;
  return names[tool] ?? tool;
}
