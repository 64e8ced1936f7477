/** Actions that agents have requested: their list, and the page of one, with its changes, the decision and the result. */
import type { Env, Hono } from "hono";
import type { Child, FC } from "hono/jsx";
import { type ActionView, decideAction, getAction } from "../../features/approvals/service.ts";
import { decide, decisions } from "../../http/mcp/approval.ts";
import { idPatterns } from "../../ids.ts";
import { indented } from "./format.ts";
import { usePage } from "./page.tsx";
import { Crumb, LineTable, OutcomeNotice, Press, RowName, StateLabel } from "./parts.tsx";
import { attempt } from "./services.ts";
import type { Tone } from "./status-text.ts";
import type { Surface } from "./surface.ts";

const tones: Readonly<Record<ActionView["state"], Tone>> = {
  pending: "warn",
  approved: "busy",
  refused: "quiet",
  expired: "quiet",
  done: "good",
  failed: "bad",
};

/** Registers the page of one action, and its decision. */
export function registerActionPage<E extends Env>(app: Hono<E>, surface: Surface<E>): void {
  const { actions, callerOf, showPage, showMissing, showRefused, viewOf } = surface;
  const route = `${actions}/:id` as const;

  app.get(route, async (c) => {
    const found = await getAction(callerOf(c), c.req.param("id") ?? "");
    if (found.kind !== "ok") return showMissing(c);
    const action = found.value;
    const frame = { title: viewOf(c).toolText(action.tool), place: "actions" } as const;
    return showPage(c, frame, <ActionPanel action={action} outcome={c.req.query("done")} />);
  });

  for (const [step, decision] of decisions)
    app.post(`${route}/${step}`, async (c) => {
      const id = c.req.param("id") ?? "";
      const { origin } = new URL(c.req.url);
      const done = await attempt(callerOf(c), decide, { id, decision, origin });
      const path = `${actions}/${id}`;
      return done.kind === "ok"
        ? c.redirect(`${path}?done=action-${decision}`, 303)
        : showRefused(c, done, path);
    });
}

/** Values are shown as the tool gets them: an approver must see all of it. */
const ActionPanel: FC<{ action: ActionView; outcome: string | undefined }> = ({ action, outcome: done }) => {
  const { t, mayCall, actionAt, actionsAt, toolText } = usePage();
  const { states, about, asked, until, approve, refuse, answer } = t.actions;
  const { id, state, input, outcome } = action;
  const [list, title] = actionsAt;
  return (
    <section class="stack narrow" aria-labelledby="action">
      <OutcomeNotice name={done} />
      <div>
        <Crumb href={list}>{title}</Crumb>
        <h1 id="action">{toolText(action.tool)}</h1>
      </div>
      <p>
        <StateLabel tone={tones[state]}>{states[state]}</StateLabel>
      </p>
      <p>{about[state]}</p>
      <ul class="changes">
        {Object.entries(Object(input)).map(([name, value]) => (
          <li class="break">
            <span class="soft">{`${name.replaceAll("_", " ")}: `}</span>
            <Value value={value} />
          </li>
        ))}
      </ul>
      <p class="small soft break">
        {`${asked}: ${minuteOf(action.created_at)} · ${action.key_id ?? action.session_id} · ${until}: ${minuteOf(action.expires_at)}`}
      </p>
      {state === "pending" && mayCall(decideAction) && (
        <div class="actions">
          <Press action={`${actionAt(id)}/approve`} label={approve} of="main" />
          <Press action={`${actionAt(id)}/refuse`} label={refuse} />
        </div>
      )}
      {outcome !== null && (
        <section aria-label={answer}>
          <pre tabindex={0}>{indented(outcome)}</pre>
        </section>
      )}
    </section>
  );
};

const Value: FC<{ value: unknown }> = ({ value }) => {
  const { destinationAt } = usePage();
  const code = <code>{typeof value === "string" ? value : JSON.stringify(value)}</code>;
  const isDestination = typeof value === "string" && idPatterns.destination.test(value);
  return isDestination ? <a href={destinationAt(value)}>{code}</a> : code;
};

/** A time of the API in UTC, to the minute. */
function minuteOf(time: string): string {
  return time.slice(0, 16).replace("T", " ");
}

export const ActionTable: FC<{ actions: readonly ActionView[]; empty?: Child }> = ({ actions, empty }) => {
  const { t, actionAt, toolText } = usePage();
  const first = ({ input }: ActionView) => String(Object.values(Object(input))[0] ?? "");
  return (
    <LineTable
      rows={actions}
      columns={[
        [
          t.actions.asked,
          "main",
          (one) => <RowName name={toolText(one.tool)} href={actionAt(one.id)} sub={first(one)} />,
          (one) => `${toolText(one.tool)} ${first(one)}`,
        ],
        [t.log.state, "", ({ state }) => ({ tone: tones[state], label: t.actions.states[state] })],
        [t.actions.until, "brief wide", ({ expires_at }) => minuteOf(expires_at)],
      ]}
      empty={empty}
    />
  );
};
