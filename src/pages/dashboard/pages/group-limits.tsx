/** Sets the limits of a group, and removes them. For operators of the whole deployment. */
import type { Hono } from "hono";
import { defaultGroupLimits, groupLimitShape } from "../../../core/group/limits.ts";
import type { Refused } from "../../../core/result.ts";
import { groupInput } from "../../../features/groups/schema.ts";
import { deleteGroup, getGroup, replaceGroup } from "../../../features/groups/service.ts";
import { FormNotice, formState, TextField } from "../../ui/fields.tsx";
import { destinationLabels, type FormFields } from "../../ui/form-fields.ts";
import { type Form, numberIn, textIn } from "../../ui/format.ts";
import { outcomeAt, Top } from "../../ui/parts.tsx";
import { callWith } from "../calls.ts";
import { BreakerFields, NumberFields } from "../components/destination-form.tsx";
import { actAndReturn, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { limitsIn } from "../destination-input.ts";
import { callerOnPage, type DashboardContext, type DashboardEnv, mayCall } from "../session.ts";

const GROUPS = "/dashboard/groups";
export const GROUP_LIMITS = `${GROUPS}/limits`;

const labels: FormFields = { ...destinationLabels, name: ["name", "Group"] };
const names = Object.keys(groupLimitShape.fields) as readonly (keyof typeof defaultGroupLimits)[];

export function registerGroupLimitPages(app: Hono<DashboardEnv>): void {
  app.get(GROUP_LIMITS, async (c) => {
    if (!mayLimitGroups(c)) return showReadOnly(c);
    const name = c.req.query("name");
    if (name === undefined) return showForm(c, {});
    const found = await getGroup(callerOnPage(c), name);
    if (found.kind !== "ok") return showRefusal(c, found, GROUPS);
    const { breaker, created_at, ...limits } = found.value;
    // Defaults stay empty, so that a saved form does not fix them.
    return showForm(c, created_at === null ? { name } : { ...breaker, ...limits });
  });

  app.post(GROUP_LIMITS, async (c) => {
    if (!mayLimitGroups(c)) return showReadOnly(c);
    const typed: Form = await c.req.parseBody();
    const name = textIn(typed, "name") ?? "";
    if (typed.action === "remove")
      return actAndReturn(c, (caller) => deleteGroup(caller, name), GROUPS, "group-limits");
    const given = Object.fromEntries(names.map((limit) => [limit, numberIn(typed, limit)]));
    const input = { ...given, breaker: limitsIn(typed).breaker };
    const set = await callWith(c, groupInput, input, (caller, fields) =>
      replaceGroup(caller, { name, fields }),
    );
    if (set.kind === "ok") return c.redirect(outcomeAt(GROUPS, "group-limits"), 303);
    return showForm(c, typed, set);
  });
}

/** Groups belong to the deployment: a session of one tenant does not see them. */
export function mayLimitGroups(c: DashboardContext): boolean {
  return mayCall(c, replaceGroup) && c.get("visitor").principal.tenant === undefined;
}

function showForm(c: DashboardContext, typed: Form, refused?: Refused) {
  const form = formState(typed, labels, refused);
  return showPage(
    c,
    { title: "Limits of a group", place: "groups", refused },
    <>
      <Top
        crumb={[GROUPS, "Groups"]}
        title="Limits of a group"
        lede="All members together get no more than this. An empty field means the default."
      />
      <form class="stack" method="post" action={GROUP_LIMITS}>
        <FormNotice form={form} />
        <div class="fields">
          <TextField
            form={form}
            name="name"
            required
            hint="A name that destinations have, or host: and a host, such as host:hooks.example.com."
          />
          <NumberFields
            form={form}
            names={names}
            current={defaultGroupLimits}
            ranges={groupLimitShape.fields}
          />
        </div>
        <fieldset class="fields">
          <legend>Circuit breaker</legend>
          <BreakerFields form={form} />
        </fieldset>
        <p class="actions">
          <button type="submit">Save limits</button>
          {typed.updated_at !== undefined && (
            <button type="submit" name="action" value="remove" formnovalidate>
              Remove limits
            </button>
          )}
        </p>
      </form>
    </>,
  );
}
