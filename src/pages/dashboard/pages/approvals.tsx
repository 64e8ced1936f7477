/** Agents' requests, which a person approves or refuses. */
import { getActions } from "../../../features/approvals/service.ts";
import { ActionTable } from "../../ui/action-panel.tsx";
import { Top } from "../../ui/parts.tsx";
import { showPage, showRefusal } from "../components/layout.tsx";
import { callerWithinTenant, type Dashboard } from "../session.ts";

const MOST_SHOWN = 100;

export function registerApprovals(app: Dashboard): void {
  app.get("/dashboard/actions", async (c) => {
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
            empty="Nothing yet. Create a key whose changes are approved, and give it to an agent."
          />
        </section>
      </>,
    );
  });
}
