/** The filters of the log of deliveries: how they are read from an address, chosen in a form, and removed one by one. */
import type { FC } from "hono/jsx";
import {
  attemptErrors,
  cancelReasons,
  deadReasons,
  stateOfReason,
  waitingReasons,
} from "../../../core/reasons.ts";
import {
  COMPARED,
  type DeliveryChoices,
  type NamedDestinations,
} from "../../../features/deliveries/filters.ts";
import { deliveryStates } from "../../../features/deliveries/schema.ts";
import { nameOf, shortUrl } from "../../ui/destination-table.tsx";
import { FieldForm, formState, Input, Inputs } from "../../ui/fields.tsx";
import { deliveryFilters, type Option } from "../../ui/form-fields.ts";
import { addressOf, countOf, plural, type Query, utcIn } from "../../ui/format.ts";
import { DataList, Options, Section, Select } from "../../ui/parts.tsx";
import { capitalized } from "../../ui/status-text.ts";

export const DELIVERIES = "/dashboard/deliveries";

/** The filters with the names that the API has for them. `tenant` is for visitors that are bound to none. */
const labels: Readonly<Record<string, string>> = {
  state: "State",
  ...Object.fromEntries(
    Object.entries(deliveryFilters).map(([name, [, label]]) => [name, label.replace(" (UTC)", "")]),
  ),
};

/** The filters that are given, without empty fields; times as the API takes them. */
export function filtersIn(given: Readonly<Record<string, unknown>>, mayNameTenant: boolean): URLSearchParams {
  const fields = Object.keys(labels).flatMap((name) => {
    const value = utcIn(given, name) ?? "";
    return value === "" || (name === "tenant" && !mayNameTenant) ? [] : [[name, value]];
  });
  return new URLSearchParams(fields);
}

/** The filters that have an index of deliveries. Without them the newest events come first. */
const INDEXED = ["state", "status", "reason"];

/** The query of a page of the log with these filters. */
export function pageWanted(query: URLSearchParams, limit: number, cursor: string | undefined) {
  const order = [...query.keys()].some((name) => INDEXED.includes(name)) ? "destination" : "event";
  return { ...Object.fromEntries(query), order, limit: String(limit), ...(cursor && { cursor }) };
}

/** The address of the log with these filters. */
export function logAt(query: URLSearchParams, more: Query = {}, path = DELIVERIES): string {
  return addressOf(path, { ...Object.fromEntries(query), ...more });
}

/** The address of the log for all tenants: an empty one chooses all of them. */
const OF_ALL_TENANTS = `${DELIVERIES}?tenant=`;

type Props = Readonly<{ query: URLSearchParams; choices: DeliveryChoices; types: readonly string[] }>;

export const NO_CHOICES: DeliveryChoices = {
  destinations: undefined,
  chosen: undefined,
  counts: [],
  exact: [],
};

/** Each filter with a link to the log without it. */
export const FilterChips: FC<Omit<Props, "types">> = ({ query, choices }) => {
  if (query.size === 0) return null;
  return (
    <p class="chips">
      {[...query].map(([name, value]) => {
        const text = `${labels[name]}: ${valueText(name, value, choices)}`;
        const rest = new URLSearchParams([...query].filter(([other]) => other !== name));
        // An empty tenant chooses all of them.
        if (name === "tenant") rest.set(name, "");
        const path = rest.size === 0 ? DELIVERIES : `${DELIVERIES}?${rest}`;
        return (
          <a class="chip break" href={path} aria-label={`Remove the filter ${text}`}>
            {text}
            <span aria-hidden="true"> ×</span>
          </a>
        );
      })}
      <a href={query.has("tenant") ? OF_ALL_TENANTS : DELIVERIES}>Clear all</a>
    </p>
  );
};

function valueText(name: string, value: string, { chosen }: DeliveryChoices): string {
  if (name === "state") return capitalized(value);
  if (name === "reason") return reasonText(value);
  if (name === "since" || name === "until")
    return `${value.replace("T", " ").replace(/(:00)?(\.000)?Z$/, "")} UTC`;
  return name === "destination_id" && chosen?.id === value ? nameOf(chosen) : value;
}

function reasonText(reason: string): string {
  if (reason === "dns" || reason === "tls") return reason.toUpperCase();
  return capitalized(reason.replace(/^http_/, "HTTP ").replaceAll("_", " "));
}

export const Filters: FC<Props & Readonly<{ showTenant: boolean }>> = ({
  query,
  choices,
  types,
  showTenant,
}) => {
  const typed = {
    ...Object.fromEntries(query),
    since: timeIn(query, "since"),
    until: timeIn(query, "until"),
  };
  const form = formState(typed, deliveryFilters);
  return (
    <FieldForm
      method="get"
      form={form}
      action={DELIVERIES}
      aria-label="Filters"
      submit="Filter"
      button=""
      hint={countsText(query, choices)}
    >
      <div class="fields">
        <Select label="State" name="state" of={statesOffered(choices)} chosen={query.get("state")} />
        <ReasonSelect query={query} choices={choices} />
        <DestinationSelect chosen={query.get("destination_id")} choices={choices} />
        <Input name="type" list="types" />
        <DataList id="types" of={types} />
        <Inputs names={["tag", "status", "since", "until", ...(showTenant ? ["tenant"] : [])]} />
      </div>
    </FieldForm>
  );
};

/** The value as its input has it. */
const timeIn = (query: URLSearchParams, name: string) => query.get(name)?.slice(0, 19);

function statesOffered(choices: DeliveryChoices): Option[] {
  const states = deliveryStates.map(
    (state): Option => [state, `${capitalized(state)}${stateCount(choices, state)}`],
  );
  return [["", "Any"], ...states];
}

/** The note about the numbers behind states and reasons: which deliveries they count, and whether they are exact. */
function countsText(query: URLSearchParams, { exact }: DeliveryChoices): string {
  const of = query.has("destination_id")
    ? "of this destination"
    : query.has("tenant")
      ? "of this tenant"
      : "that you can see";
  const partly = exact.length < 3 ? ", and + marks a minimum" : "";
  return `Numbers count all deliveries ${of} that wait, are retried or are dead, whatever else is filtered${partly}.`;
}

/** Reasons of the token endpoint are offered once, among those of waiting. */
const isOfRetries = (reason: string) => stateOfReason(reason) === "retrying";

/** Statuses that can be chosen, even if they have not been counted. */
const STATUSES = [400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504];

const ReasonSelect: FC<Pick<Props, "query" | "choices">> = ({ query, choices }) => {
  const chosen = query.get("reason") ?? "";
  const of = (state: string) =>
    [...choices.counts.map(({ reason }) => reason), chosen].filter(
      (reason) => stateOfReason(reason) === state,
    );
  const groups = {
    waiting: waitingReasons,
    retrying: [
      "in_flight",
      ...attemptErrors.filter(isOfRetries),
      ...STATUSES.map((status) => `http_${status}`),
    ],
    dead: deadReasons,
    cancelled: cancelReasons,
  };
  return (
    <label>
      Reason
      <select name="reason">
        <option value="">Any</option>
        {Object.entries(groups).map(([state, reasons]) => (
          <optgroup label={capitalized(state)}>
            <Options
              of={[...new Set([...reasons, ...of(state)])].map((reason) => [
                reason,
                `${reasonText(reason)}${countText(choices, state, reason)}`,
              ])}
              chosen={chosen}
            />
          </optgroup>
        ))}
      </select>
    </label>
  );
};

const STATES_COUNTED: readonly string[] = ["waiting", "retrying", "dead"];

/** The number of a state, including 0; nothing if it is unknown. */
function stateCount(choices: DeliveryChoices, state: string): string {
  return countText(choices, state) || (STATES_COUNTED.includes(state) ? " (0)" : "");
}

/** Nothing if there is none, or if nothing is counted. */
function countText({ counts, exact }: DeliveryChoices, state: string, reason?: string): string {
  if (!STATES_COUNTED.includes(state)) return "";
  const count = counts
    .filter((one) => one.state === state && (reason === undefined || one.reason === reason))
    .reduce((sum, one) => sum + one.count, 0);
  const isExact = exact.some((one) => one === state);
  return count === 0 && isExact ? "" : ` (${countOf(count)}${isExact ? "" : "+"})`;
}

type DestinationProps = Readonly<{ chosen: string | null; choices: DeliveryChoices }>;

const DestinationSelect: FC<DestinationProps> = ({ chosen, choices: { destinations } }) => {
  if (destinations === undefined)
    return (
      <label>
        Destination
        <input name="destination" value={chosen ?? ""} placeholder="Name, URL or dst_…" autocomplete="off" />
      </label>
    );
  const isListed = chosen === null || destinations.some(({ id }) => id === chosen);
  const listed = destinations
    .toSorted((a, b) => nameOf(a).localeCompare(nameOf(b)))
    .map((row): Option => {
      return [row.id, row.description?.trim() ? `${nameOf(row)} (${shortUrl(row.url)})` : nameOf(row)];
    });
  const all: readonly Option[] = [["", "Any"], ...(isListed ? [] : [[chosen, chosen] as const]), ...listed];
  return <Select label="Destination" name="destination_id" of={all} chosen={chosen} />;
};

type NamedProps = Readonly<{
  /** The other filters. */
  query: URLSearchParams;
  name: string;
  named: NamedDestinations;
}>;

/** Destinations to choose from, whose name or URL has the text that was typed. */
export const NamedList: FC<NamedProps> = ({ query, name, named: { found, count, next } }) => (
  <Section id="named" title={`${plural(count, "destination")} with “${name}” in name or URL`}>
    <ul>
      {found.map((row) => (
        <li class="break">
          <a href={logAt(query, { destination_id: row.id })}>{nameOf(row)}</a>
          {row.description?.trim() && <span class="soft">{` ${shortUrl(row.url)}`}</span>}
        </li>
      ))}
    </ul>
    {count > found.length && (
      <p class="soft">{`The first ${countOf(found.length)} are shown. Type more of the name to find others.`}</p>
    )}
    {next !== undefined && (
      <p class="pager">
        <span class="soft">{`${countOf(COMPARED)} destinations were compared, and there are more.`}</span>
        <a href={logAt(query, { destination: name, after: next })}>Continue</a>
      </p>
    )}
  </Section>
);
