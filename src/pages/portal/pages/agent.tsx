/**
 * The token with which the visitor's agent uses the MCP server, within the visit, and the actions that it has
 * requested: the visitor approves or refuses each.
 */
import type { FC } from "hono/jsx";
import { getActions } from "../../../features/approvals/service.ts";
import { type AgentToken, agentTokenOf } from "../../../features/portal-links/visits.ts";
import { ActionTable } from "../../ui/action-panel.tsx";
import { FieldForm } from "../../ui/fields.tsx";
import { CheckBox, Copyable, Section, Top } from "../../ui/parts.tsx";
import { showPortalPage } from "../layout.tsx";
import { usePortal } from "../look.ts";
import { callerInPortal, type Portal, type PortalContext } from "../session.ts";

const PATH = "/portal/agent";

export function registerAgentPage(app: Portal): void {
  app.get(PATH, (c) => show(c));
  app.post(PATH, async (c) => {
    const use = (await c.req.parseBody()).confirm === "on" ? "confirming_agent" : "agent";
    return show(c, await agentTokenOf(c.get("services"), c.get("visitor"), use));
  });
}

const ACTIONS_SHOWN = 20;

async function show(c: PortalContext, made?: AgentToken) {
  const { t } = c.get("look");
  const listed = await getActions(callerInPortal(c), ACTIONS_SHOWN);
  const actions = listed.kind === "ok" ? listed.value : [];
  return showPortalPage(
    c,
    { title: t.agent.title, place: "endpoints" },
    <>
      <Top crumb={["/portal", t.endpoints]} title={t.agent.title} lede={t.agent.lede} />
      {made === undefined ? (
        <FieldForm action={PATH} submit={t.agent.make}>
          <CheckBox name="confirm" value="on" checked label={t.agent.confirm} />
        </FieldForm>
      ) : (
        <Token made={made} address={new URL("/mcp", c.req.url).href} />
      )}
      {actions.length > 0 && (
        <Section id="asked" title={t.agent.asked}>
          <ActionTable actions={actions} />
        </Section>
      )}
    </>,
  );
}

const Token: FC<{ made: AgentToken; address: string }> = ({ made: { token, expiresAt }, address }) => {
  const { t, f } = usePortal();
  const command = `claude mcp add --transport http webhooks ${address} \\\n  --header "Authorization: Bearer ${token}"`;
  return (
    <section class="stack" aria-label={t.agent.token}>
      <p>{t.agent.until(f.moment(expiresAt))}</p>
      <Copyable id="address" label={t.endpoint.address} text={address} />
      <Copyable id="token" label={t.agent.token} text={token} />
      <Copyable id="command" label="Claude Code" text={command} />
    </section>
  );
};
