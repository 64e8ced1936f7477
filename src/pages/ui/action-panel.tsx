/** An action that an agent has asked for: its changes, the decision, and what came of it. */
import type { Child, FC } from "hono/jsx";
import { type ActionView, decideAction } from "../../features/approvals/service.ts";
import { idPatterns } from "../../ids.ts";
import { indented } from "./format.ts";
import { usePage } from "./page.tsx";
import { LineTable, Press, RowName, StateLabel } from "./parts.tsx";
import type { Tone } from "./status-text.ts";

const tones: Readonly<Record<ActionView["state"], Tone>> = {
  pending: "warn",
  approved: "busy",
  refused: "quiet",
  expired: "quiet",
  done: "good",
  failed: "bad",
};

type Props = Readonly<{
  action: ActionView;
  title: string;
  path: string;
  /** What leads back to the list. */
  children?: Child;
}>;

/** Values are shown as the tool gets them: whoever approves must see all of it. */
export const ActionPanel: FC<Props> = ({ action, title, path, children }) => {
  const { t, mayCall } = usePage();
  const { states, about, asked, until, approve, refuse, answer } = t.actions;
  const { state, input, outcome } = action;
  return (
    <section class="stack narrow" aria-labelledby="action">
      <div>
        {children}
        <h1 id="action">{title}</h1>
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
          <Press action={`${path}/approve`} label={approve} of="main" />
          <Press action={`${path}/refuse`} label={refuse} />
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

type ListProps = Readonly<{
  actions: readonly ActionView[];
  path: string;
  titleOf: (action: ActionView) => string;
  empty?: Child;
}>;

export const ActionTable: FC<ListProps> = ({ actions, path, titleOf, empty }) => {
  const t = usePage().t.actions;
  const first = ({ input }: ActionView) => String(Object.values(Object(input))[0] ?? "");
  return (
    <LineTable
      rows={actions}
      columns={[
        [
          t.asked,
          "main",
          (one) => <RowName name={titleOf(one)} href={`${path}/${one.id}`} sub={first(one)} />,
          (one) => `${titleOf(one)} ${first(one)}`,
        ],
        [t.state, "", ({ state }) => ({ tone: tones[state], label: t.states[state] })],
        [t.until, "brief wide", ({ expires_at }) => minuteOf(expires_at)],
      ]}
      empty={empty}
    />
  );
};
