/** What agents have asked for: a person approves or refuses it. */
import type { Hono } from "hono";
import { type ActionView, getAction, getActions } from "../../../features/approvals/service.ts";
import type { Caller } from "../../../features/service.ts";
import { decide, decisions, toolOf } from "../../../http/mcp/approval.ts";
import { ActionPanel, ActionTable } from "../../ui/action-panel.tsx";
import { Crumb, OutcomeNotice, Top } from "../../ui/parts.tsx";
import { actAndReturn, showNotFound, showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, callerWithinTenant, type DashboardEnv } from "../session.ts";

const PATH = "/dashboard/actions";
const MOST_SHOWN = 100;

export function registerApprovalPages(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const listed = await getActions(callerWithinTenant(c), MOST_SHOWN);
    if (listed.kind !== "ok") return showRefusal(c, listed, "/dashboard");
    return showPage(
      c,
      { title: "Approvals", place: "actions", live: true },
      <>
        <Top
          title="Approvals"
          lede="What agents want to change, newest first. Each waits for a decision for up to a day."
        />
        <section aria-label="Approvals">
          <ActionTable
            actions={listed.value}
            path={PATH}
            titleOf={titleOf}
            empty="Nothing yet. Create a key whose changes are approved, and give it to an agent."
          />
        </section>
      </>,
    );
  });

  app.get(`${PATH}/:id`, async (c) => {
    const found = await getAction(callerOnPage(c), c.req.param("id"));
    if (found.kind !== "ok") return showNotFound(c);
    const action = found.value;
    return showPage(
      c,
      { title: titleOf(action), place: "actions" },
      <>
        <OutcomeNotice name={c.req.query("done")} />
        <ActionPanel action={action} title={titleOf(action)} path={`${PATH}/${action.id}`}>
          <Crumb href={PATH}>Approvals</Crumb>
        </ActionPanel>
      </>,
    );
  });

  for (const [step, decision] of decisions)
    app.post(`${PATH}/:id/${step}`, (c) => {
      const id = c.req.param("id");
      const { origin } = new URL(c.req.url);
      const act = (caller: Caller) => decide(caller, { id, decision, origin });
      return actAndReturn(c, act, `${PATH}/${id}`, `action-${decision}`);
    });
}

function titleOf(action: ActionView): string {
  return toolOf(action)?.title ?? action.tool;
}
