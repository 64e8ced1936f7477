/** What agents have asked for: a person approves or refuses it. */
import type { Hono } from "hono";
import { type ActionView, decideAction, getAction, getActions } from "../../../features/approvals/service.ts";
import type { Caller } from "../../../features/service.ts";
import { decide, decisions, toolOf } from "../../../http/mcp/approval.ts";
import { ActionPanel, ActionTable, type ActionTexts } from "../../ui/action-panel.tsx";
import { Crumb, OutcomeNotice } from "../../ui/parts.tsx";
import { actAndReturn, showNotFound, showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, callerWithinTenant, type DashboardEnv, mayCall } from "../session.ts";

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
        <section>
          <h1>Approvals</h1>
          <p class="lede">
            What agents want to change, newest first. Each waits for a decision for up to a day.
          </p>
        </section>
        <section aria-label="Approvals">
          {listed.value.length === 0 ? (
            <p class="empty">
              Nothing yet. Create a key whose changes are approved, and give it to an agent.
            </p>
          ) : (
            <ActionTable t={texts} actions={listed.value} path={PATH} titleOf={titleOf} />
          )}
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
        <ActionPanel
          t={texts}
          action={action}
          title={titleOf(action)}
          path={`${PATH}/${action.id}`}
          destinations="/dashboard/destinations"
          mayDecide={mayCall(c, decideAction)}
        >
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

const texts: ActionTexts = {
  states: {
    pending: "Undecided",
    approved: "Approved",
    refused: "Refused",
    expired: "Expired",
    done: "Done",
    failed: "Failed",
  },
  about: {
    pending:
      "Nothing is changed yet. If you approve, it is done at once, with the rights that the agent has then.",
    approved: "Approved. Whether it was carried out is not known: see the audit trail.",
    refused: "Refused. Nothing was changed.",
    expired: "Nobody decided in time. Nothing was changed.",
    done: "Approved and done.",
    failed: "Approved, but the tool refused.",
  },
  approve: "Approve",
  refuse: "Refuse",
  asked: "Asked for",
  state: "State",
  until: "Expires",
  answer: "The tool's answer",
};
