/**
 * Sends many deliveries again, or cancels them: those that are selected in a log, or all that its filters find; and the
 * parts of logs that lead there.
 */
import type { Child, FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { previewRepair, type Repaired, repairDeliveries } from "../../../features/deliveries/repairs.ts";
import {
  deliveryQuery,
  MOST_IDS,
  type RepairAction,
  repairActions,
} from "../../../features/deliveries/schema.ts";
import { placesOf } from "../../../features/deliveries/service.ts";
import { encodeCursor } from "../../../features/parameters.ts";
import { ActionButtons, FieldForm } from "../../ui/fields.tsx";
import { deliveryFilters } from "../../ui/form-fields.ts";
import { countOf, plural } from "../../ui/format.ts";
import { ButtonLink, CheckAll, RefusedNotice } from "../../ui/parts.tsx";
import {
  DELIVERIES,
  FilterChips,
  filtersIn,
  logAt,
  NO_CHOICES,
  pageWanted,
} from "../components/delivery-filters.tsx";
import { showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { callService, callWith, type Dashboard, type DashboardContext, mayCall } from "../session.ts";

const REPAIR = `${DELIVERIES}/repair`;

/** The words of each action: its title, question, effect, button and result. */
const texts = {
  retry: {
    title: "Send again",
    question: "Send these deliveries again?",
    what: "Ended deliveries are sent again, delivered ones too, with the same id and as many attempts as a new delivery. Retrying deliveries are attempted now instead of later. All others stay as they are.",
    button: "Send them again",
    done: "sent again",
  },
  cancel: {
    title: "Cancel",
    question: "Cancel these deliveries?",
    what: "Queued, waiting and retrying deliveries get no more attempts. Deliveries that have ended or are in flight stay as they are. Cancelled deliveries can be sent again later.",
    button: "Cancel them",
    done: "cancelled",
  },
} as const satisfies Readonly<Record<RepairAction, object>>;

type PickableProps = Readonly<{ query: URLSearchParams; isOn: boolean; children?: Child }>;

/** The form around a table whose rows can be selected. */
export const Pickable: FC<PickableProps> = ({ query, isOn, children }) =>
  isOn ? (
    <FieldForm
      class=""
      action={REPAIR}
      hidden={Object.fromEntries(query)}
      aside={
        <>
          <CheckAll label="Select all" />
          <ActionButtons
            of={[
              ["retry", "Send selected again"],
              ["cancel", "Cancel selected"],
            ]}
          />
        </>
      }
    >
      {children}
    </FieldForm>
  ) : (
    <div>{children}</div>
  );

/** Each leads to a page that says how many deliveries these are, before anything is done. */
export const RepairLinks: FC<{ query: URLSearchParams }> = ({ query }) => (
  <p class="actions">
    <span class="soft small">{allText(query)}</span>
    <ButtonLink href={logAt(query, { action: "retry" }, REPAIR)}>Send all again</ButtonLink>
    <ButtonLink href={logAt(query, { action: "cancel" }, REPAIR)}>Cancel all</ButtonLink>
    <ButtonLink href={replaysAt(query)}>Replay…</ButtonLink>
  </p>
);

function allText(query: URLSearchParams): string {
  if (query.size === 0) return "All deliveries:";
  return query.size === 1 && query.has("destination_id")
    ? "All deliveries to this destination:"
    : "All that these filters find:";
}

/** Links to the log with these filters, and to the destination that they name. */
const BackLinks: FC<{ query: URLSearchParams }> = ({ query }) => {
  const id = query.get("destination_id");
  return (
    <p class="pager">
      <a href={logAt(query)}>Back to the log</a>
      {id !== null && <a href={`/dashboard/destinations/${encodeURIComponent(id)}`}>To the destination</a>}
    </p>
  );
};

/** The address for planning a replay of the deliveries that these filters find, as far as replays have them. */
function replaysAt(query: URLSearchParams): string {
  const of = (name: string, value: string | null): [string, string][] =>
    value === null ? [] : [[name, value]];
  const isDelivered = query.get("state") === "delivered";
  return logAt(
    new URLSearchParams([
      ...["destination_id", "since", "until", "tag", "tenant"].flatMap((name) => of(name, query.get(name))),
      ...of("event_types", query.get("type")),
      ...of("include", isDelivered ? "delivered" : null),
    ]),
    {},
    REPLAYS,
  );
}

export const REPLAYS = "/dashboard/replays";

/** Calls, of a page of deliveries each, that one press of the button makes. */
const CALLS = 3;

export function registerRepairPage(app: Dashboard): void {
  app.get(REPAIR, async (c) => {
    if (!mayCall(c, repairDeliveries)) return showReadOnly(c);
    const { tenant } = c.get("visitor");
    const { cursor, action: named, ...given } = c.req.query();
    const query = filtersOf(c, { ...given, tenant });
    const action = actionNamed(named);
    if (action === undefined) return showNotFound(c);
    const wanted = pageWanted(query, MOST_IDS, cursor);
    const read = await callWith(c, deliveryQuery, wanted, (caller, input) =>
      previewRepair(caller, { action, query: input }),
    );
    const [found, refused] = read.kind === "ok" ? [read.value] : [undefined, read];
    return showPage(
      c,
      { title: texts[action].title, place: "deliveries", refused },
      <Confirm action={action} query={query} found={found} refused={refused} />,
    );
  });

  app.post(REPAIR, async (c) => {
    const form = await c.req.parseBody({ all: true });
    const { delivery = [], all, cursor, action: named } = form;
    const query = filtersOf(c, form);
    const action = actionNamed(named);
    if (action === undefined) return showNotFound(c);
    const frame = { title: texts[action].title, place: "deliveries" } as const;
    if (all === undefined) {
      const ids = [delivery].flat().filter((one) => typeof one === "string");
      if (ids.length === 0) return showPage(c, frame, <NoneSelected query={query} />, 422);
      const done = await callService(c, repairDeliveries, { action, chosen: { kind: "selected", ids } });
      if (done.kind !== "ok") return showRefusal(c, done, logAt(query));
      return showPage(c, frame, <Done action={action} query={query} repaired={[done.value]} />);
    }
    const { repaired, refused } = await repairFound(c, action, query, String(cursor ?? ""));
    // The page shows the result, even if the rest failed.
    if (refused && repaired.length === 0) return showRefusal(c, refused, logAt(query));
    const page = <Done action={action} query={query} repaired={repaired} refused={refused} />;
    return showPage(c, { ...frame, refused }, page);
  });
}

const actionNamed = (name: unknown): RepairAction | undefined =>
  repairActions.find((action) => action === name);

function filtersOf(c: DashboardContext, given: Readonly<Record<string, unknown>>): URLSearchParams {
  return filtersIn(given, c.get("visitor").principal.tenant === undefined);
}

/** Page after page, from the cursor on: each call is recorded separately. */
async function repairFound(
  c: DashboardContext,
  action: RepairAction,
  query: URLSearchParams,
  from: string,
): Promise<Readonly<{ repaired: readonly Repaired[]; refused?: Refused }>> {
  const repaired: Repaired[] = [];
  let cursor = from;
  for (let calls = 0; calls < CALLS; calls++) {
    const wanted = pageWanted(query, MOST_IDS, cursor);
    const done = await callWith(c, deliveryQuery, wanted, (caller, input) =>
      repairDeliveries(caller, { action, chosen: { kind: "found", query: input } }),
    );
    if (done.kind !== "ok") return { repaired, refused: done };
    repaired.push(done.value);
    const { next } = done.value;
    if (next === undefined) break;
    cursor = encodeCursor(placesOf(next));
  }
  return { repaired };
}

type ConfirmProps = Readonly<{
  action: RepairAction;
  query: URLSearchParams;
  found: Repaired | undefined;
  refused: Refused | undefined;
}>;

const Confirm: FC<ConfirmProps> = ({ action, query, found, refused }) => (
  <section class="narrow">
    <h1>{found && isNothing(found) ? `Nothing can be ${texts[action].done}` : texts[action].question}</h1>
    {refused && <RefusedNotice refused={refused} fields={deliveryFilters} />}
    {query.size === 0 && <p class="lede">Without a filter: every delivery that you can see.</p>}
    <FilterChips query={query} choices={NO_CHOICES} />
    {found && (
      <div class="stack">
        <p>{foundText(action, found)}</p>
        <Skipped skipped={found.skipped} />
        {isNothing(found) ? (
          <BackLinks query={query} />
        ) : (
          <>
            <p>{texts[action].what}</p>
            <RepairForm action={action} query={query} verb={texts[action].button} />
          </>
        )}
      </div>
    )}
  </section>
);

function isNothing({ done, next }: Repaired): boolean {
  return done === 0 && next === undefined;
}

function foundText(action: RepairAction, { done, skipped, next }: Repaired): string {
  const count = skipped.reduce((sum, one) => sum + one.count, done);
  const first = `${next === undefined ? "" : "first "}${plural(count, "delivery", "deliveries")}`;
  const more = `there may be more. Each press handles up to ${countOf(CALLS * MOST_IDS)}.`;
  if (count === 0)
    return next === undefined
      ? "The log has no delivery with these filters."
      : `The log finds none so far, and ${more}`;
  const which =
    done === count ? "" : `, of which ${done === 0 ? "none" : countOf(done)} can be ${texts[action].done}`;
  return `The log finds ${next === undefined ? "" : "the "}${first}${which}${next === undefined ? "." : `, and ${more}`}`;
}

/** How many deliveries were left as they are, or would be, by the reason. */
const Skipped: FC<Pick<Repaired, "skipped">> = ({ skipped }) =>
  skipped.length === 0 ? null : (
    <>
      <p>Not changed:</p>
      <ul>
        {skipped.map(({ why, count }) => (
          <li>{`${countOf(count)}: ${why}.`}</li>
        ))}
      </ul>
    </>
  );

type FormProps = Readonly<{ action: RepairAction; query: URLSearchParams; verb: string; cursor?: string }>;

/** Repairs all that the filters find, from the cursor on. */
const RepairForm: FC<FormProps> = ({ action, query, verb, cursor }) => (
  <FieldForm
    class=""
    action={REPAIR}
    hidden={{ ...Object.fromEntries(query), action, all: "1", cursor }}
    submit={verb}
    aside={<ButtonLink href={logAt(query)}>Back to the log</ButtonLink>}
  />
);

const NoneSelected: FC<{ query: URLSearchParams }> = ({ query }) => (
  <section class="narrow">
    <h1>No delivery is selected</h1>
    <p class="lede">
      Select deliveries in the log first. <a href={logAt(query)}>Back to the log</a>
    </p>
  </section>
);

type DoneProps = Readonly<{
  action: RepairAction;
  query: URLSearchParams;
  repaired: readonly Repaired[];
  refused?: Refused | undefined;
}>;

const Done: FC<DoneProps> = ({ action, query, repaired, refused }) => {
  const done = repaired.reduce((sum, one) => sum + one.done, 0);
  const groups = Map.groupBy(
    repaired.flatMap((one) => one.skipped),
    ({ why }) => why,
  );
  const skipped = [...groups].map(([why, all]) => ({
    why,
    count: all.reduce((sum, { count }) => sum + count, 0),
  }));
  const next = repaired.at(-1)?.next;
  return (
    <section class="narrow">
      <h1>{`${countOf(done)} ${texts[action].done}`}</h1>
      <div class="stack">
        {refused && <RefusedNotice refused={refused} />}
        {action === "retry" && done > 0 && (
          <p>They are in the backlog. Each is sent as soon as its destination has capacity.</p>
        )}
        <Skipped skipped={skipped} />
        {next === undefined ? (
          <BackLinks query={query} />
        ) : (
          <>
            <p>
              There may be more. <a href={replaysAt(query)}>A replay</a> sends any number of them, at a rate
              that the destination can take.
            </p>
            <RepairForm action={action} query={query} verb="Continue" cursor={encodeCursor(placesOf(next))} />
          </>
        )}
      </div>
    </section>
  );
};
