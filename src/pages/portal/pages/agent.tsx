/**
 * The token with which an agent of the visitor's own uses the MCP server, within the visit, and the actions that it has asked for:
 * the visitor approves or refuses each.
 */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { type ActionView, getAction, getActions } from "../../../features/approvals/service.ts";
import { type AgentToken, agentTokenOf } from "../../../features/portal-links/visits.ts";
import { decide, decisions } from "../../../http/mcp/approval.ts";
import { ActionPanel, ActionTable } from "../../ui/action-panel.tsx";
import { PostForm } from "../../ui/fields.tsx";
import { CheckBox, Copyable, Crumb, Section, Top } from "../../ui/parts.tsx";
import { attempt } from "../../ui/services.ts";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import { type Look, useLook } from "../look.ts";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";

const PATH = "/portal/agent";
const ACTIONS = "/portal/actions";

export function registerAgentPage(app: Hono<PortalEnv>): void {
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
      {made === undefined ? <TokenForm /> : <Token made={made} address={new URL("/mcp", c.req.url).href} />}
      {actions.length > 0 && (
        <Section id="asked" title={t.agent.asked}>
          <ActionTable actions={actions} path={ACTIONS} titleOf={(action) => actionTitle(t, action)} />
        </Section>
      )}
    </>,
  );
}

const TokenForm: FC = () => {
  const { agent } = useLook().t;
  return (
    <PostForm action={PATH} submit={agent.make}>
      <CheckBox name="confirm" value="on" checked label={agent.confirm} />
    </PostForm>
  );
};

const Token: FC<{ made: AgentToken; address: string }> = ({ made: { token, expiresAt }, address }) => {
  const { t, f } = useLook();
  const command = `claude mcp add --transport http webhooks ${address} \\\n  --header "Authorization: Bearer ${token}"`;
  return (
    <section class="stack" aria-label={t.agent.token}>
      <p>{t.agent.until(f.moment(expiresAt))}</p>
      <Copyable id="address" label={t.agent.address} text={address} />
      <Copyable id="token" label={t.agent.token} text={token} />
      <Copyable id="command" label="Claude Code" text={command} />
    </section>
  );
};

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
        <Crumb href={PATH}>{t.agent.title}</Crumb>
      </ActionPanel>,
    );
  });

  for (const [step, decision] of decisions)
    app.post(`${ACTIONS}/:id/${step}`, async (c) => {
      const id = c.req.param("id");
      const { origin } = new URL(c.req.url);
      const done = await attempt(callerInPortal(c), decide, { id, decision, origin });
      const at = `${ACTIONS}/${id}`;
      return done.kind === "ok" ? c.redirect(at, 303) : showRefused(c, done, at);
    });
}

/** The name of the action's tool, in the visitor's language. */
function actionTitle({ actions }: Look["t"], { tool }: ActionView): string {
  const names: Readonly<Record<string, string>> = actions.tools;
  return names[tool] ?? tool;
}
