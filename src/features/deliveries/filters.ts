/** Filters of a log of deliveries: the destinations there are, by name too, and how many deliveries have which reason. */
import { invalidFields, ok } from "../../core/result.ts";
import type { Destination } from "../../store/destination.ts";
import { findDestination, listDestinations } from "../../store/destinations.ts";
import { type ReasonCount, reasonCounts } from "../../store/reason-counts.ts";
import { service } from "../service.ts";

const reading = { scope: "read" } as const;

/** Destinations of one list of choices. */
const MOST_CHOICES = 100;
/** Destinations compared with a name. */
const MOST_NAMED = 1_000;
/** The most deliveries that are counted of a state, in each database. */
export const REASONS_COUNTED = 1_000;

export type DeliveryChoices = Readonly<{
  /** Undefined when there are too many to choose from. */
  destinations: readonly Destination[] | undefined;
  /** Counts of the destination that was named, else of all; empty when there are too many. */
  counts: readonly ReasonCount[];
}>;

type Within = Readonly<{ tenant: string | undefined; destination_id?: string | undefined }>;

/** The choices within a tenant. Reads a bounded number of destinations and deliveries, without a gate. */
export const getDeliveryChoices = service(
  reading,
  async ({ services, principal }, { tenant: named, destination_id: id }: Within) => {
    const { tenant = named } = principal;
    const page = { tenant, after: undefined, limit: MOST_CHOICES + 1 };
    const [rows, only] = await Promise.all([
      listDestinations(services.db, page),
      id === undefined ? undefined : findDestination(services.db, id, tenant),
    ]);
    const destinations = rows.length > MOST_CHOICES ? undefined : rows;
    const counted = id === undefined ? (destinations ?? []) : only ? [only] : [];
    const ids = counted.map((one) => one.id);
    return ok<DeliveryChoices>({ destinations, counts: await reasonCounts(services, ids, REASONS_COUNTED) });
  },
);

type Named = Readonly<{ tenant: string | undefined; name: string }>;

/**
 * The destination with this id, description or URL, or the only one that has the text in one of these; compares the first
 * thousand. Invalid, with how many match, when that is none or several.
 */
export const getDestinationNamed = service(
  reading,
  async ({ services, principal }, { tenant: named, name }: Named) => {
    const { tenant = named } = principal;
    const rows = await listDestinations(services.db, { tenant, after: undefined, limit: MOST_NAMED });
    const text = name.trim().toLowerCase();
    const namesOf = ({ id, description, url }: Destination) =>
      [id, description?.trim() ?? "", url, url.replace(/^https:\/\//, "")].map((one) => one.toLowerCase());
    const exact = rows.filter((row) => namesOf(row).includes(text));
    const some =
      exact.length > 0 ? exact : rows.filter((row) => namesOf(row).some((one) => one.includes(text)));
    const [only, ...others] = some;
    if (only && others.length === 0) return ok(only);
    const fault = `is ${JSON.stringify(name)}, which ${only ? `${some.length} destinations have` : "no destination has"} in name or URL`;
    const expected = "the name, the URL or the id of one destination";
    return invalidFields([{ field: "destination_id", fault, expected }]);
  },
);
