/** An action that an agent has asked for, on the dashboard and in the portal: its changes, the decision, and what came of it. */
import type { Child, FC } from "hono/jsx";
import type { ActionView } from "../../features/approvals/service.ts";
import { idPatterns } from "../../ids.ts";
import { indented } from "./format.ts";
import { LineTable, Press, StateCell, StateLabel } from "./parts.tsx";
import type { Tone } from "./status-text.ts";

type State = ActionView["state"];

/** The texts, in the language of the page. */
export type ActionTexts = Readonly<{
  states: Readonly<Record<State, string>>;
  about: Readonly<Record<State, string>>;
  approve: string;
  refuse: string;
  asked: string;
  state: string;
  until: string;
  answer: string;
}>;

const tones: Readonly<Record<State, Tone>> = {
  pending: "warn",
  approved: "busy",
  refused: "quiet",
  expired: "quiet",
  done: "good",
  failed: "bad",
};

type Props = Readonly<{
  t: ActionTexts;
  action: ActionView;
  /** The name of its tool. */
  title: string;
  path: string;
  /** Where the pages of destinations are. */
  destinations: string;
  mayDecide: boolean;
  /** What leads back to the list. */
  children?: Child;
}>;

/** Values are shown as the tool gets them: whoever approves must see all of it. */
export const ActionPanel: FC<Props> = ({ t, action, title, path, destinations, mayDecide, children }) => {
  const { state, input, outcome } = action;
  return (
    <section class="stack narrow" aria-labelledby="action">
      <div>
        {children}
        <h1 id="action">{title}</h1>
      </div>
      <p>
        <StateLabel tone={tones[state]}>{t.states[state]}</StateLabel>
      </p>
      <p>{t.about[state]}</p>
      <ul class="changes">
        {Object.entries(Object(input)).map(([name, value]) => (
          <li class="break">
            <span class="soft">{`${name.replaceAll("_", " ")}: `}</span>
            <Value value={value} destinations={destinations} />
          </li>
        ))}
      </ul>
      <p class="small soft break">
        {`${t.asked}: ${minuteOf(action.created_at)} · ${action.key_id ?? action.session_id} · ${t.until}: ${minuteOf(action.expires_at)}`}
      </p>
      {state === "pending" && mayDecide && (
        <div class="actions">
          <Press action={`${path}/approve`} label={t.approve} isMain />
          <Press action={`${path}/refuse`} label={t.refuse} />
        </div>
      )}
      {outcome !== null && (
        <section aria-label={t.answer}>
          <pre tabindex={0}>{indented(outcome)}</pre>
        </section>
      )}
    </section>
  );
};

const Value: FC<{ value: unknown; destinations: string }> = ({ value, destinations }) => {
  const code = <code>{typeof value === "string" ? value : JSON.stringify(value)}</code>;
  const isDestination = typeof value === "string" && idPatterns.destination.test(value);
  return isDestination ? <a href={`${destinations}/${value}`}>{code}</a> : code;
};

/** A time of the API in UTC, to the minute. */
function minuteOf(time: string): string {
  return time.slice(0, 16).replace("T", " ");
}

type ListProps = Readonly<{
  t: ActionTexts;
  actions: readonly ActionView[];
  path: string;
  titleOf: (action: ActionView) => string;
}>;

export const ActionTable: FC<ListProps> = ({ t, actions, path, titleOf }) => (
  <LineTable
    columns={[
      [t.asked, "main"],
      [t.state, "status"],
      [t.until, "brief wide"],
    ]}
  >
    {actions.map((action) => (
      <tr>
        <td class="clip">
          <a class="name" href={`${path}/${action.id}`}>
            {titleOf(action)}
          </a>
          <span class="sub">{String(Object.values(Object(action.input))[0] ?? "")}</span>
        </td>
        <StateCell tone={tones[action.state]} label={t.states[action.state]} />
        <td class="wide">{minuteOf(action.expires_at)}</td>
      </tr>
    ))}
  </LineTable>
);
