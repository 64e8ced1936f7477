/** Repairs that the log of deliveries offers for those that are selected, or for all that its filters find. */
import type { Child, FC } from "hono/jsx";
import type { RepairAction } from "../../../features/deliveries/schema.ts";
import { ButtonLink, CheckAll } from "../../ui/parts.tsx";
import { DELIVERIES, logAt } from "./delivery-filters.tsx";

export const REPAIR = `${DELIVERIES}/repair`;

export const repairVerbs: Readonly<Record<RepairAction, string>> = { retry: "Send again", cancel: "Cancel" };

type PickableProps = Readonly<{ query: URLSearchParams; isOn: boolean; children?: Child }>;

/** The form around a table whose rows can be selected. */
export const Pickable: FC<PickableProps> = ({ query, isOn, children }) =>
  isOn ? (
    <form method="post" action={REPAIR}>
      {children}
      <HiddenFields query={query} />
      <div class="actions">
        <CheckAll label="Select all" />
        <button type="submit" name="action" value="retry">
          Send selected again
        </button>
        <button type="submit" name="action" value="cancel">
          Cancel selected
        </button>
      </div>
    </form>
  ) : (
    <div>{children}</div>
  );

export const HiddenFields: FC<{ query: URLSearchParams }> = ({ query }) => (
  <>
    {[...query].map(([name, value]) => (
      <input type="hidden" name={name} value={value} />
    ))}
  </>
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
export const BackLinks: FC<{ query: URLSearchParams }> = ({ query }) => {
  const id = query.get("destination_id");
  return (
    <p class="pager">
      <a href={logAt(query)}>Back to the log</a>
      {id !== null && <a href={`/dashboard/destinations/${encodeURIComponent(id)}`}>To the destination</a>}
    </p>
  );
};

/** Where a replay is planned of what these filters find, as far as replays have them. */
export function replaysAt(query: URLSearchParams): string {
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
