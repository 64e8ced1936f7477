/** The token with which an agent of the visitor's own uses the MCP server, within the visit. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { type ActionView, getActions } from "../../../features/approvals/service.ts";
import { type AgentToken, agentTokenOf } from "../../../features/portal-links/visits.ts";
import { ActionTable } from "../../ui/action-panel.tsx";
import { Crumb, Section, Submit } from "../../ui/parts.tsx";
import { showPortalPage } from "../layout.tsx";
import type { Look } from "../look.ts";
import { Copy } from "../parts.tsx";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";
import { ACTIONS, actionTitle } from "./actions.tsx";

const PATH = "/portal/agent";

export function registerAgentPage(app: Hono<PortalEnv>): void {
  app.get(PATH, (c) => show(c));
  app.post(PATH, async (c) => {
    const use = (await c.req.parseBody()).confirm === "on" ? "confirming_agent" : "agent";
    return show(c, await agentTokenOf(c.get("services"), c.get("visitor"), use));
  });
}

const ACTIONS_SHOWN = 20;

async function show(c: PortalContext, made?: AgentToken) {
  const look = c.get("look");
  const listed = await getActions(callerInPortal(c), ACTIONS_SHOWN);
  const address = new URL("/mcp", c.req.url).href;
  return showPortalPage(
    c,
    { title: look.t.agent.title, place: "endpoints" },
    <AgentPage
      look={look}
      address={address}
      made={made}
      actions={listed.kind === "ok" ? listed.value : []}
    />,
  );
}

type Props = Readonly<{
  look: Look;
  address: string;
  made: AgentToken | undefined;
  actions: readonly ActionView[];
}>;

const AgentPage: FC<Props> = ({ look, address, made, actions }) => {
  const { t, f } = look;
  return (
    <>
      <section>
        <Crumb href="/portal">{t.endpoints}</Crumb>
        <h1>{t.agent.title}</h1>
        <p class="lede">{t.agent.lede}</p>
      </section>
      {made === undefined ? (
        <form class="stack" method="post" action={PATH}>
          <label class="check">
            <input type="checkbox" name="confirm" value="on" checked />
            {t.agent.confirm}
          </label>
          <div class="actions">
            <Submit>{t.agent.make}</Submit>
          </div>
        </form>
      ) : (
        <section class="stack" aria-label={t.agent.token}>
          <p>{t.agent.until(f.moment(made.expiresAt))}</p>
          <Copy look={look} id="address" label={t.agent.address} text={address} />
          <Copy look={look} id="token" label={t.agent.token} text={made.token} />
          <Copy look={look} id="command" label="Claude Code" text={commandOf(address, made.token)} />
        </section>
      )}
      {actions.length > 0 && (
        <Section id="asked" title={t.agent.asked}>
          <ActionTable
            t={t.actions}
            actions={actions}
            path={ACTIONS}
            titleOf={(action) => actionTitle(look, action)}
          />
        </Section>
      )}
    </>
  );
};

function commandOf(address: string, token: string): string {
  return `claude mcp add --transport http webhooks ${address} \\\n  --header "Authorization: Bearer ${token}"`;
}
