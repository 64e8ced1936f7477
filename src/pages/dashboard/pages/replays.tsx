/** Replays: planned over a range of time for several destinations, estimated, started, and watched while they run. */
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { DAY_MS } from "../../../core/retention.ts";
import { getDestinations } from "../../../features/destinations/service.ts";
import { replaysAtOnce } from "../../../features/replays/schema.ts";
import {
  ESTIMATED,
  estimateReplays,
  getReplays,
  type ReplayEstimate,
  type StartedReplay,
  startReplays,
} from "../../../features/replays/service.ts";
import type { Destination } from "../../../store/destination.ts";
import { isoTime } from "../../../time.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { FieldForm, formState, Input, Inputs } from "../../ui/fields.tsx";
import { replaysFields } from "../../ui/form-fields.ts";
import {
  atMost,
  countOf,
  durationOf,
  durationOrNone,
  type Form,
  listIn,
  numberIn,
  plural,
  textIn,
  utcIn,
} from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { CheckBox, LineTable, OutcomeNotice, RefusedNotice, Section, Top } from "../../ui/parts.tsx";
import { ReplayProgress } from "../../ui/replay-progress.tsx";
import { attemptWith } from "../../ui/services.ts";
import { actAndReturn, showPage } from "../components/layout.tsx";
import { callerWithinTenant, callWith, type Dashboard, type DashboardContext, mayCall } from "../session.ts";
import { replayVerbs } from "./destination-actions.tsx";
import { REPLAYS } from "./repair.tsx";

/** Destinations that can be chosen, and replays that are shown. */
const [MOST_CHOICES, SHOWN] = [100, 10];

export function registerReplaysPage(app: Dashboard): void {
  app.get(REPLAYS, async (c) => {
    const form = { ...c.req.query(), destination_id: c.req.queries("destination_id") ?? [] };
    if (c.req.query("estimate") === undefined) return showReplays(c, form, {});
    const caller = callerWithinTenant(c);
    const estimated = await attemptWith(caller, replaysAtOnce, plannedIn(c, form), estimateReplays);
    return showReplays(
      c,
      form,
      estimated.kind === "ok" ? { estimates: estimated.value } : { refused: estimated },
    );
  });

  app.post(REPLAYS, async (c) => {
    const form = await c.req.parseBody({ all: true });
    const started = await callWith(c, replaysAtOnce, plannedIn(c, form), startReplays);
    return showReplays(c, form, started.kind === "ok" ? { started: started.value } : { refused: started });
  });

  for (const [verb, outcome, act] of replayVerbs)
    app.post(`${REPLAYS}/:id/${verb}`, (c) =>
      actAndReturn(c, (caller) => act(caller, c.req.param("id")), REPLAYS, outcome),
    );
}

const idsIn = ({ destination_id: given = [] }: Form): readonly unknown[] => [given].flat();

/** The replays of the form, as their schema takes them. */
function plannedIn(c: DashboardContext, form: Form) {
  const include = textIn(form, "include") ?? "dead";
  const [types, tag] = [listIn(form, "event_types"), textIn(form, "tag")];
  return {
    destination_ids: idsIn(form),
    since: utcIn(form, "since"),
    until: utcIn(form, "until") ?? isoTime(c.get("services").now()),
    include,
    ...(types !== null && { event_types: types }),
    ...(tag !== undefined && { tag }),
    rate_per_minute: numberIn(form, "rate_per_minute") ?? 100,
  };
}

type Came = Readonly<{
  estimates?: readonly ReplayEstimate[];
  started?: readonly StartedReplay[];
  refused?: Refused;
}>;

async function showReplays(c: DashboardContext, form: Form, came: Came) {
  const caller = callerWithinTenant(c);
  const { tenant, principal } = c.get("visitor");
  const [choices, replays] = await Promise.all([
    getDestinations(caller, { tenant: principal.tenant ?? tenant, after: undefined, limit: MOST_CHOICES }),
    getReplays(caller, { destinationId: undefined, state: undefined, before: undefined, limit: SHOWN }),
  ]);
  const rows = choices.kind === "ok" ? choices.value : [];
  const latest = replays.kind === "ok" ? replays.value.replays : [];
  const names = new Map(rows.map((row) => [row.id, nameOf(row)]));
  const { refused, started, estimates } = came;
  return showPage(
    c,
    { title: "Replays", place: "replays", live: c.req.method === "GET", refused },
    <>
      <Top
        title="Replays"
        lede="A replay sends deliveries from a range of time again, no faster than the receiver can take them. Each destination has one at a time."
      />
      <OutcomeNotice name={c.req.query("done")} />
      {refused && <RefusedNotice refused={refused} fields={replaysFields} />}
      {started && <Started started={started} names={names} />}
      {mayCall(c, startReplays) && (
        <Section id="plan" title="New replay">
          {rows.length === 0 ? (
            <p class="empty">No destinations yet.</p>
          ) : (
            <Plan form={form} choices={rows} />
          )}
          {estimates && <Estimates estimates={estimates} />}
        </Section>
      )}
      <Section id="latest" title="Latest replays">
        {latest.length === 0 && <p class="empty">No replays yet.</p>}
        {latest.map((replay) => (
          <ReplayProgress
            path="/dashboard"
            replay={replay}
            name={names.get(replay.destinationId) ?? replay.destinationId}
          />
        ))}
      </Section>
    </>,
  );
}

const whichTexts = {
  dead: "those that were given up",
  delivered: "those that were delivered",
  missing: "events that were never sent there",
} as const;

const Plan: FC<{ form: Form; choices: readonly Destination[] }> = ({ form: given, choices }) => {
  const { now } = usePage();
  const chosen = idsIn(given);
  const yesterday = isoTime(now - DAY_MS - (now % DAY_MS));
  const time = (name: "since" | "until", otherwise: string) => (utcIn(given, name) ?? otherwise).slice(0, 19);
  const typed = { ...given, since: time("since", yesterday), until: time("until", isoTime(now)) };
  const form = formState(typed, replaysFields);
  return (
    <FieldForm
      method="get"
      form={form}
      action={REPLAYS}
      aside={
        <>
          <button type="submit" name="estimate" value="1">
            Estimate
          </button>
          <button type="submit" class="main" formmethod="post">
            Start replay
          </button>
        </>
      }
    >
      <fieldset>
        <legend>Destinations</legend>
        {choices.map((row) => (
          <CheckBox
            name="destination_id"
            value={row.id}
            checked={chosen.includes(row.id) || choices.length === 1}
            label={nameOf(row)}
          />
        ))}
      </fieldset>
      <div class="fields">
        <Inputs names={["since", "until"]} />
        <Input name="include" options={Object.entries(whichTexts)} />
        <Inputs names={["event_types", "tag", "rate_per_minute"]} />
      </div>
    </FieldForm>
  );
};

const Estimates: FC<{ estimates: readonly ReplayEstimate[] }> = ({ estimates }) => {
  const counts = estimates.flatMap(({ count }) => (count === undefined ? [] : [count]));
  const longest = Math.max(0, ...estimates.map(({ durationMs = 0 }) => durationMs));
  const isMore = counts.includes(ESTIMATED);
  const sum = counts.reduce((all, one) => all + one, 0);
  return (
    <>
      <output>
        {counts.length < estimates.length
          ? "The number of missing events is known only while the replay runs."
          : `${isMore ? "Perhaps more than" : "At most"} ${plural(sum, "delivery", "deliveries")}, in ${durationOf(longest)}${isMore ? " or longer" : ""} while nothing fails. Types and tags are not taken into account.`}
      </output>
      <LineTable
        rows={estimates}
        columns={[
          ["Destination", "main", ({ destination }) => nameOf(destination), true],
          ["Deliveries", "num", ({ count }) => (count === undefined ? "–" : atMost(count, ESTIMATED))],
          ["Time", "num", ({ durationMs = null }) => durationOrNone(durationMs)],
        ]}
      />
    </>
  );
};

type StartedProps = Readonly<{ started: readonly StartedReplay[]; names: ReadonlyMap<string, string> }>;

const Started: FC<StartedProps> = ({ started, names }) => {
  const refused = started.flatMap(({ id, result }) =>
    result.kind === "ok" ? [] : [`${names.get(id) ?? id}: ${result.detail}.`],
  );
  const count = started.length - refused.length;
  return (
    <div class={`notice tone-${refused.length === 0 ? "good" : "bad"}`}>
      <output>{`${countOf(count)} of ${plural(started.length, "replay")} started.`}</output>
      {refused.length > 0 && (
        <ul>
          {refused.map((text) => (
            <li>{text}</li>
          ))}
        </ul>
      )}
    </div>
  );
};
