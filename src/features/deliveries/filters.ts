/**
 * Filters of a log of deliveries: the destinations to choose from, also by name, and how many deliveries have which
 * reason.
 */
import { invalidField, ok } from "../../core/result.ts";
import type { Destination } from "../../store/destination.ts";
import { findDestination, listDestinations } from "../../store/destinations.ts";
import { type ReasonCounts, reasonCounts } from "../../store/reason-counts.ts";
import { ownIds } from "../../store/watched-destinations.ts";
import { service } from "../service.ts";

const reading = { scope: "read" } as const;

/** Destinations of one list of choices. */
const MOST_CHOICES = 100;
/** Rows that are counted of a state, in each database: with more destinations than can be chosen from, fewer. */
const [COUNTED, COUNTED_OF_MANY] = [1_000, 500];
/** Destinations compared with a name in one call, and the most of these that are returned. */
export const [COMPARED, MOST_NAMED] = [1_000, 50];

export type DeliveryChoices = ReasonCounts &
  Readonly<{
    /** Undefined when there are too many to choose from. */
    destinations: readonly Destination[] | undefined;
    /** The named destination: only its deliveries are counted. */
    chosen: Destination | undefined;
  }>;

type Within = Readonly<{ tenant: string | undefined; destination_id?: string | undefined }>;

/**
 * The choices within a tenant. Reads a bounded number of destinations and deliveries, without a gate. At most a thousand
 * destinations of a tenant are counted.
 */
export const getDeliveryChoices = service(
  reading,
  async ({ services, principal }, { tenant: named, destination_id: id }: Within) => {
    const { tenant = named } = principal;
    const [rows, chosen] = await Promise.all([
      listDestinations(services.db, { tenant, after: undefined, limit: MOST_CHOICES + 1 }),
      id === undefined ? undefined : findDestination(services.db, id, tenant),
    ]);
    const isFew = rows.length <= MOST_CHOICES;
    const choices = { destinations: isFew ? rows : undefined, chosen };
    if (isFew || id !== undefined) {
      const ids = (id === undefined ? rows : [chosen]).flatMap((one) => one?.id ?? []);
      return ok<DeliveryChoices>({ ...choices, ...(await reasonCounts(services, ids, COUNTED)) });
    }
    const all = tenant === undefined ? undefined : await ownIds(services.db, tenant, COMPARED + 1);
    const counted = await reasonCounts(services, all?.slice(0, COMPARED), COUNTED_OF_MANY);
    const isPart = all !== undefined && all.length > COMPARED;
    return ok<DeliveryChoices>({ ...choices, ...counted, ...(isPart && { exact: [] }) });
  },
);

type Named = Readonly<{
  tenant: string | undefined;
  name: string;
  /** The last destination that has been compared. */
  after?: string | undefined;
}>;

/** Destinations with a text in id, description or URL. */
export type NamedDestinations = Readonly<{
  /** At most fifty. Where some are called exactly that, only these. */
  found: readonly Destination[];
  count: number;
  /** The last that has been compared; undefined when all have been. */
  next: string | undefined;
}>;

/**
 * The destinations with this id, description or URL, or those that have the text in one of these. A call compares a
 * thousand. Invalid when there are none.
 */
export const getDestinationsNamed = service(
  reading,
  async ({ services, principal }, { tenant: named, name, after }: Named) => {
    const { tenant = named } = principal;
    const text = name.trim().toLowerCase();
    const [byId, rows] = await Promise.all([
      findDestination(services.db, name.trim(), tenant),
      listDestinations(services.db, { tenant, after, limit: COMPARED }),
    ]);
    if (byId) return ok<NamedDestinations>({ found: [byId], count: 1, next: undefined });
    const namesOf = ({ id, description, url }: Destination) =>
      [id, description?.trim() ?? "", url, url.replace(/^https:\/\//, "")].map((one) => one.toLowerCase());
    const exact = rows.filter((row) => namesOf(row).includes(text));
    const some =
      exact.length > 0 ? exact : rows.filter((row) => namesOf(row).some((one) => one.includes(text)));
    const next = rows.length === COMPARED ? rows.at(-1)?.id : undefined;
    if (some.length > 0 || next !== undefined)
      return ok<NamedDestinations>({ found: some.slice(0, MOST_NAMED), count: some.length, next });
    const fault = `is ${JSON.stringify(name)}, which no ${after === undefined ? "" : "further "}destination has in name or URL`;
    return invalidField("destination_id", fault, "the name, the URL or the id of a destination");
  },
);
