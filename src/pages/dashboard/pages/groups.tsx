/** Groups of destinations that share a receiver, with their state. For operators of the whole deployment. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { GroupStateJson } from "../../../features/groups/schema.ts";
import { getGroupsWithState, restartGroup } from "../../../features/groups/service.ts";
import { addressOf } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { OutcomeNotice, Pager, Press, StateLabel, Top } from "../../ui/parts.tsx";
import { pageOfRows } from "../../ui/services.ts";
import { actAndReturn, showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, type DashboardEnv } from "../session.ts";
import { GROUP_LIMITS, mayLimitGroups } from "./group-limits.tsx";

const PATH = "/dashboard/groups";
/** The state of each is a call. */
const PAGE_SIZE = 20;

export function registerGroupPages(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const after = c.req.query("after");
    const listed = await getGroupsWithState(callerOnPage(c), { after, limit: PAGE_SIZE + 1 });
    if (listed.kind !== "ok") return showRefusal(c, listed, "/dashboard");
    const { rows, next } = pageOfRows(listed.value, PAGE_SIZE);
    const isFirst = after === undefined;
    return showPage(
      c,
      { title: "Groups", place: "groups", live: true },
      <>
        <Top
          title="Groups"
          lede="Destinations of any tenants that share one receiver: they share its concurrency, its rate, its hold and its circuit, and take turns."
        >
          {mayLimitGroups(c) && (
            <p>
              <a href={GROUP_LIMITS}>Set the limits of a group</a>
            </p>
          )}
        </Top>
        <OutcomeNotice name={c.req.query("done")} />
        <section aria-label="Groups">
          {rows.length === 0 && (
            <p class="empty">
              {isFirst
                ? "None yet. A group appears here once a destination names it, or once it has limits of its own."
                : "No more groups."}
            </p>
          )}
          {rows.map((group, i) => (
            <GroupPanel group={group} place={i} mayLimit={mayLimitGroups(c)} />
          ))}
          <Pager path={PATH} next={next && { after: next.name }} isFirst={isFirst} />
        </section>
      </>,
    );
  });

  app.post(`${PATH}/:name/reset`, (c) =>
    actAndReturn(c, (caller) => restartGroup(caller, c.req.param("name")), PATH, "group-reset"),
  );
}

type PanelProps = Readonly<{ group: GroupStateJson; place: number; mayLimit: boolean }>;

/** @param place makes ids, which a name might not be fit for */
const GroupPanel: FC<PanelProps> = ({ group: { name, state, ...limits }, place, mayLimit }) => (
  <article class="delivery" aria-labelledby={`group-${place}`}>
    <div class="head">
      <h2 id={`group-${place}`}>{name}</h2>
      <GroupLabel state={state} />
    </div>
    <div class="stack">
      <p>
        {state === null
          ? "Its state cannot be read at the moment."
          : `${state.in_flight} of ${state.window} connections in use, ${state.waiting} members waiting, ${state.tenants} tenants active.`}
      </p>
      <p class="small soft">
        {`Limits: ${limits.max_concurrency} at once, ${limits.rate_per_second} a second, burst ${limits.rate_burst}.`}
      </p>
      {mayLimit && (
        <p>
          <a href={addressOf(GROUP_LIMITS, { name })} aria-label={`Change the limits of ${name}`}>
            Change limits
          </a>
        </p>
      )}
      {state !== null && (state.circuit !== "closed" || state.held_until !== null) && <Reset name={name} />}
    </div>
  </article>
);

const Reset: FC<{ name: string }> = ({ name }) =>
  usePage().mayCall(restartGroup) ? (
    <Press
      action={`${PATH}/${encodeURIComponent(name)}/reset`}
      label="Try again now"
      title={`Try ${name} again now`}
    />
  ) : null;

const GroupLabel: FC<{ state: GroupStateJson["state"] }> = ({ state }) => {
  if (state === null) return <StateLabel tone="quiet">Unknown</StateLabel>;
  if (state.held_until !== null)
    return <StateLabel tone="busy">{`On hold until ${state.held_until}`}</StateLabel>;
  if (state.circuit === "open")
    return <StateLabel tone="bad">{`Circuit open until ${state.circuit_until}`}</StateLabel>;
  if (state.circuit === "half_open") return <StateLabel tone="busy">Probing</StateLabel>;
  return <StateLabel tone="good">Open for traffic</StateLabel>;
};
