/** Groups of destinations that share a receiver, with their state and their limits. For operators of the whole deployment. */
import type { FC } from "hono/jsx";
import { defaultGroupLimits, groupBurstOf, groupLimitShape } from "../../../core/group/limits.ts";
import { defaultBreaker } from "../../../core/limits.ts";
import type { Refused } from "../../../core/result.ts";
import { type GroupStateJson, groupInput } from "../../../features/groups/schema.ts";
import {
  deleteGroup,
  getGroup,
  getGroupsWithState,
  replaceGroup,
  restartGroup,
} from "../../../features/groups/service.ts";
import { FieldForm, formState, Input, Inputs } from "../../ui/fields.tsx";
import { breakerNames, destinationLabels, type FormFields, numberInput } from "../../ui/form-fields.ts";
import { addressOf, type Form, numberIn, textIn } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { Card, OutcomeNotice, Pager, Press, StateLabel, Top } from "../../ui/parts.tsx";
import { changedMeanwhile, pageAfter } from "../../ui/services.ts";
import { actAndReturn, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { limitsIn } from "../destination-input.ts";
import { outcomeAt } from "../outcomes.ts";
import {
  callerOnPage,
  callService,
  callWith,
  type Dashboard,
  type DashboardContext,
  mayCall,
} from "../session.ts";

const PATH = "/dashboard/groups";
const LIMITS = `${PATH}/limits`;
/** The state of each is a call. */
const PAGE_SIZE = 20;

export function registerGroupPages(app: Dashboard): void {
  app.get(PATH, async (c) => {
    const listed = await pageAfter(
      c.req.query("after"),
      PAGE_SIZE,
      (page) => getGroupsWithState(callerOnPage(c), page),
      ({ name }) => name,
    );
    if (listed.kind !== "ok") return showRefusal(c, listed, "/dashboard");
    const { rows, ...pager } = listed.value;
    const empty = pager.isFirst
      ? "None yet. A group appears here once a destination names it, or once it has limits of its own."
      : "No more groups.";
    return showPage(
      c,
      { title: "Groups", place: "groups", live: true },
      <>
        <Top
          title="Groups"
          lede="Destinations of any tenants that share one receiver: they share its concurrency, its rate, its hold and its circuit, and take turns."
        >
          {mayCall(c, replaceGroup) && (
            <p>
              <a href={LIMITS}>Set the limits of a group</a>
            </p>
          )}
        </Top>
        <OutcomeNotice name={c.req.query("done")} />
        <section aria-label="Groups">
          {rows.length === 0 && <p class="empty">{empty}</p>}
          {rows.map((group, i) => (
            <GroupCard group={group} place={i} mayLimit={mayCall(c, replaceGroup)} />
          ))}
          <Pager path={PATH} {...pager} />
        </section>
      </>,
    );
  });

  app.post(`${PATH}/:name/reset`, (c) =>
    actAndReturn(c, (caller) => restartGroup(caller, c.req.param("name")), PATH, "group-reset"),
  );

  app.get(LIMITS, async (c) => {
    if (!mayCall(c, replaceGroup)) return showReadOnly(c);
    const name = c.req.query("name");
    if (name === undefined) return showForm(c, undefined, {});
    const found = await getGroup(callerOnPage(c), name);
    if (found.kind !== "ok") return showRefusal(c, found, PATH);
    return showForm(c, found.value, ownLimits(found.value));
  });

  app.post(LIMITS, async (c) => {
    if (!mayCall(c, replaceGroup)) return showReadOnly(c);
    const typed: Form = await c.req.parseBody();
    const name = textIn(typed, "name") ?? "";
    if (typed.action === "remove")
      return actAndReturn(c, (caller) => deleteGroup(caller, name), PATH, "group-limits");
    const found = await callService(c, getGroup, name);
    // The name that no group can have is among the faults that replaceGroup finds.
    if (found.kind !== "ok" && found.kind !== "not_found") return showForm(c, undefined, typed, found);
    const stored = found.kind === "ok" ? found.value : undefined;
    const changed = stored && changedMeanwhile(typed, stored.updated_at, "group");
    if (changed) return showForm(c, stored, typed, changed);
    const given = Object.fromEntries(names.map((limit) => [limit, numberIn(typed, limit)]));
    const input = { ...given, breaker: limitsIn(typed).breaker };
    const set = await callWith(c, groupInput, input, (caller, fields) =>
      replaceGroup(caller, { name, fields }),
    );
    if (set.kind === "ok") return c.redirect(outcomeAt(PATH, "group-limits"), 303);
    return showForm(c, stored, typed, set);
  });
}

/** The inputs of a group. Defaults stay empty, so that a saved form does not fix them, and the burst follows the rate. */
function ownLimits({ breaker, ...limits }: GroupStateJson): Form {
  const rate_burst = groupBurstOf(limits.rate_per_second);
  const defaults: Form = { ...defaultGroupLimits, rate_burst, ...defaultBreaker };
  const all = Object.entries({ ...breaker, ...limits });
  return Object.fromEntries(all.filter(([name, value]) => value !== defaults[name]));
}

type CardProps = Readonly<{ group: GroupStateJson; place: number; mayLimit: boolean }>;

/** @param props `place` makes ids, which a name might not be fit for */
const GroupCard: FC<CardProps> = ({ group: { name, state, ...limits }, place, mayLimit }) => {
  const isBlocked = state !== null && (state.circuit !== "closed" || state.held_until !== null);
  return (
    <Card id={`group-${place}`} title={name} aside={<GroupLabel state={state} />}>
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
          <a href={addressOf(LIMITS, { name })} aria-label={`Change the limits of ${name}`}>
            Change limits
          </a>
        </p>
      )}
      {isBlocked && usePage().mayCall(restartGroup) && (
        <Press
          action={`${PATH}/${encodeURIComponent(name)}/reset`}
          label="Try again now"
          title={`Try ${name} again now`}
        />
      )}
    </Card>
  );
};

const GroupLabel: FC<{ state: GroupStateJson["state"] }> = ({ state }) => {
  if (state === null) return <StateLabel tone="quiet">Unknown</StateLabel>;
  if (state.held_until !== null)
    return <StateLabel tone="busy">{`On hold until ${state.held_until}`}</StateLabel>;
  if (state.circuit === "open")
    return <StateLabel tone="bad">{`Circuit open until ${state.circuit_until}`}</StateLabel>;
  if (state.circuit === "half_open") return <StateLabel tone="busy">Probing</StateLabel>;
  return <StateLabel tone="good">Open for traffic</StateLabel>;
};

const hint = "A name that destinations have, or host: and a host, such as host:hooks.example.com.";
const labels: FormFields = { ...destinationLabels, name: ["name", "Group", { required: true, hint }] };
const names = Object.keys(groupLimitShape.fields) as readonly (keyof typeof defaultGroupLimits)[];

/** @param stored undefined where the form names no group */
function showForm(c: DashboardContext, stored: GroupStateJson | undefined, typed: Form, refused?: Refused) {
  const updatedAt = stored?.updated_at ?? null;
  const form = formState(typed, labels, refused);
  return showPage(
    c,
    { title: "Limits of a group", place: "groups", refused },
    <>
      <Top
        crumb={[PATH, "Groups"]}
        title="Limits of a group"
        lede="All members together get no more than this. An empty field means the default."
      />
      <FieldForm
        form={form}
        action={LIMITS}
        hidden={{ read_at: String(updatedAt) }}
        submit="Save limits"
        button=""
        aside={
          updatedAt !== null && (
            <button type="submit" name="action" value="remove" formnovalidate>
              Remove limits
            </button>
          )
        }
      >
        <div class="fields">
          <Input name="name" />
          {names.map((name) => (
            <Input name={name} {...numberInput(name, groupLimitShape.fields, defaultGroupLimits)} />
          ))}
        </div>
        <fieldset class="fields">
          <legend>Circuit breaker</legend>
          <Inputs names={breakerNames} />
        </fieldset>
      </FieldForm>
    </>,
  );
}
