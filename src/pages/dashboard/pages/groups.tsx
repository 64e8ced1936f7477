/** Groups of destinations that share a receiver, with their state. For operators of the whole deployment. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { GroupStateJson } from "../../../features/groups/schema.ts";
import { getGroupsWithState, restartGroup } from "../../../features/groups/service.ts";
import { OutcomeNotice, StateLabel } from "../../ui/parts.tsx";
import { actAndReturn, showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, type DashboardEnv, mayCall } from "../session.ts";
import { GROUP_LIMITS, mayLimitGroups } from "./group-limits.tsx";

const PATH = "/dashboard/groups";
/** The state of each is a call. */
const PAGE_SIZE = 20;

export function registerGroupPages(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const after = c.req.query("after");
    const listed = await getGroupsWithState(callerOnPage(c), { after, limit: PAGE_SIZE + 1 });
    if (listed.kind !== "ok") return showRefusal(c, listed, "/dashboard");
    const shown = listed.value.slice(0, PAGE_SIZE);
    const next = listed.value.length > PAGE_SIZE ? shown.at(-1)?.name : undefined;
    return showPage(
      c,
      { title: "Groups", place: "groups", live: true },
      <>
        <section>
          <h1>Groups</h1>
          <p class="lede">
            Destinations of any tenants that share one receiver: they share its concurrency, its rate, its
            hold and its circuit, and take turns.
          </p>
          {mayLimitGroups(c) && (
            <p>
              <a href={GROUP_LIMITS}>Set the limits of a group</a>
            </p>
          )}
        </section>
        <OutcomeNotice name={c.req.query("done")} />
        <section aria-label="Groups">
          {shown.length === 0 ? (
            <p class="empty">
              {after === undefined
                ? "None yet. A group appears here once a destination names it, or once it has limits of its own."
                : "No more groups."}
            </p>
          ) : (
            shown.map((group, i) => (
              <GroupPanel
                group={group}
                place={i}
                mayReset={mayCall(c, restartGroup)}
                mayLimit={mayLimitGroups(c)}
              />
            ))
          )}
          <p class="pager">
            {after !== undefined && <a href={PATH}>First page</a>}
            {next !== undefined && <a href={`${PATH}?${new URLSearchParams({ after: next })}`}>Next page</a>}
          </p>
        </section>
      </>,
    );
  });

  app.post(`${PATH}/:name/reset`, (c) =>
    actAndReturn(c, (caller) => restartGroup(caller, c.req.param("name")), PATH, "group-reset"),
  );
}

type Props = Readonly<{ group: GroupStateJson; place: number; mayReset: boolean; mayLimit: boolean }>;

/** @param place makes ids, which a name might not be fit for */
const GroupPanel: FC<Props> = ({ group: { name, state, ...limits }, place, mayReset, mayLimit }) => (
  <article class="delivery" aria-labelledby={`group-${place}`}>
    <div class="head">
      <h2 class="break" id={`group-${place}`}>
        {name}
      </h2>
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
          <a
            href={`${GROUP_LIMITS}?${new URLSearchParams({ name })}`}
            aria-label={`Change the limits of ${name}`}
          >
            Change limits
          </a>
        </p>
      )}
      {mayReset && state !== null && (state.circuit !== "closed" || state.held_until !== null) && (
        <form method="post" action={`${PATH}/${encodeURIComponent(name)}/reset`}>
          <button type="submit" aria-label={`Try ${name} again now`}>
            Try again now
          </button>
        </form>
      )}
    </div>
  </article>
);

const GroupLabel: FC<{ state: GroupStateJson["state"] }> = ({ state }) => {
  if (state === null) return <StateLabel tone="quiet">Unknown</StateLabel>;
  if (state.held_until !== null)
    return <StateLabel tone="busy">{`On hold until ${state.held_until}`}</StateLabel>;
  if (state.circuit === "open")
    return <StateLabel tone="bad">{`Circuit open until ${state.circuit_until}`}</StateLabel>;
  if (state.circuit === "half_open") return <StateLabel tone="busy">Probing</StateLabel>;
  return <StateLabel tone="good">Open for traffic</StateLabel>;
};
