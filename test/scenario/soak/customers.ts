/**
 * The customers of the soak: tenants, their endpoints with limits, and how each endpoint gets into trouble. When it is in
 * trouble follows from the seed.
 */
import { type Random, seededRandom } from "../../../src/core/seeded-random.ts";
import type { Reply } from "../../../tools/receiver.ts";
import { type FailingTimes, failingTimes } from "../unreliable-endpoints.ts";

/** An endpoint's behaviour while it is in trouble. */
type Trouble =
  /** None, ever. */
  | "steady"
  /** Answers 500. */
  | "fails"
  /** Answers 500 and 200 in turn, every second or so. */
  | "flaps"
  /** Answers after the sender's timeout, if at all. */
  | "hangs"
  /** Answers 429 and requests a hold. */
  | "quiet"
  /** Answers ever more slowly. */
  | "slows"
  /** Answers 503 to what is more than three at once, far below the limit that its owner has set. */
  | "lies"
  /** Answers 400 to some events, until it is fixed. */
  | "rejects";

export type Customer = Readonly<{
  path: string;
  tenant: string;
  /** Absent: all types. */
  types?: readonly string[];
  trouble: Trouble;
  maxConcurrency: number;
  timeoutMs: number;
  /** Its deliveries are in order: all of them, or those with the same key. */
  ordering?: "key" | "destination";
  /** It is one of those that share a receiver. */
  isGrouped?: true;
  /** It gets events that a template has transformed. */
  isShaped?: true;
  /** Nothing is sent: this consumer fetches the events, from one inbox with the others of its tenant. */
  consumer?: string;
  /** Its name in the report, unless that is its path. */
  shownAs?: string;
}>;

const PATIENT_MS = 5_000;

type Traits = Partial<Omit<Customer, "path" | "tenant" | "trouble">>;

const one = (path: string, trouble: Trouble, maxConcurrency: number, traits: Traits = {}): Customer => ({
  path,
  tenant: path.split("/")[1] ?? "",
  trouble,
  maxConcurrency,
  timeoutMs: PATIENT_MS,
  ...traits,
});

/** Customers with much traffic, each with its own kind of trouble. */
const busy: readonly Customer[] = [
  one("/acme/steady", "steady", 10),
  one("/acme/flaps", "flaps", 8, { types: ["order.paid"] }),
  one("/bolt/fails", "fails", 10),
  one("/bolt/slows", "slows", 6, { types: ["order.paid"] }),
  one("/cano/quiet", "quiet", 10),
  one("/dune/hangs", "hangs", 5, { timeoutMs: 2_000 }),
  one("/dune/steady", "steady", 4, { types: ["order.*"] }),
  one("/echo/lies", "lies", 20),
  one("/echo/rejects", "rejects", 5, { types: ["order.created"] }),
  one("/fern/keys", "fails", 6, { ordering: "key" }),
  one("/gale/line", "rejects", 4, { ordering: "destination" }),
  one("/hill/inbox/slow", "steady", 1, { consumer: "slow" }),
  one("/hill/inbox/picky", "steady", 1, { consumer: "picky" }),
  one("/iris/shared", "steady", 5, { isGrouped: true }),
  one("/jade/shared", "hangs", 5, { isGrouped: true, timeoutMs: 2_000 }),
  one("/kite/shared", "fails", 5, { isGrouped: true }),
  one("/lake/shaped", "flaps", 5, { isShaped: true }),
];

/** The group that some of them share, and how many requests it takes at once. */
export const GROUP = { name: "soak", maxConcurrency: 6 };

const QUIET_TROUBLES: readonly Trouble[] = ["steady", "steady", "steady", "fails", "flaps", "quiet"];

/** A tenant with little traffic, of every kind. */
function rare(i: number): Customer {
  const path = `/rare-${i}/hook`;
  const kinds: Readonly<Record<number, Traits>> = {
    3: { isGrouped: true },
    7: { ordering: "destination" },
    11: { isShaped: true },
    13: { ordering: "key" },
  };
  const trouble = QUIET_TROUBLES[i % QUIET_TROUBLES.length] ?? "steady";
  return one(path, trouble, 3, { shownAs: "all others", ...kinds[i % 20] });
}

const types: readonly string[] = ["order.created", "order.paid", "user.left"];
export const oneType = (random: Random) => types[Math.floor(random() * types.length)] ?? "order.paid";

export type Customers = Readonly<{
  all: readonly Customer[];
  tenants: readonly string[];
  /** The endpoints that get an event. */
  takersOf: (tenant: string, type: string) => Customer[];
  at: (path: string) => Customer | undefined;
  /** A tenant with much traffic, or one of the others. */
  oneTenant: (random: Random) => string;
  one: (random: Random) => Customer;
}>;

/** The share of the posts that go to tenants with much traffic. */
const BUSY = 0.6;

/** @param tenants how many, at least those with much traffic */
export function customersOf(tenants: number): Customers {
  const busyTenants = [...new Set(busy.map(({ tenant }) => tenant))];
  const rest = Array.from({ length: Math.max(0, tenants - busyTenants.length) }, (_, i) => rare(i));
  const all = [...busy, ...rest];
  const byTenant = Map.groupBy(all, ({ tenant }) => tenant);
  const byPath = new Map(all.map((customer) => [customer.path, customer]));
  const either = <T>(some: readonly T[], others: readonly T[], random: Random): T => {
    const from = others.length === 0 || random() < BUSY ? some : others;
    return from[Math.floor(random() * from.length)] as T;
  };
  const restTenants = rest.map(({ tenant }) => tenant);
  return {
    all,
    tenants: [...byTenant.keys()],
    takersOf: (tenant, type) => {
      const takes = (pattern: string) =>
        pattern === type || (pattern.endsWith(".*") && type.startsWith(pattern.slice(0, -1)));
      return (byTenant.get(tenant) ?? []).filter((customer) => customer.types?.some(takes) ?? true);
    },
    at: (path) => byPath.get(path),
    oneTenant: (random) => either(busyTenants, restTenants, random),
    one: (random) => either(busy, rest, random),
  };
}

/** The `data` of the soak's events. */
export type SoakData = Readonly<{
  /** The number of the event. */
  ref: number;
  tenant: string;
  postedAt: number;
  /** Endpoints that reject refuse it. */
  bad?: true;
}>;

const ANSWER_MS = 20;
/** How much later each answer of the one that slows down comes, up to the longest. */
const SLOWER_MS = 10;
const SLOWEST_MS = 600;
/** The real concurrency of the endpoint with a wrong limit. */
const TAKES = 3;
/** The hold that is requested, in seconds. */
const QUIET_S = { least: 10, most: 25 };
const OK: Reply = { status: 200, afterMs: ANSWER_MS };

export type Endpoints = Readonly<{
  /** @param inFlight the requests of this endpoint that have not been answered, this one included */
  answer: (path: string, at: number, data: SoakData, inFlight: number) => Reply;
  /** From now on the endpoint takes what was posted before. */
  mend: (path: string, at: number) => void;
  /** From now on all work. */
  recover: () => void;
}>;

/** @param times the longest times of working and of trouble */
export function endpoints(customers: Customers, seed: number, times: FailingTimes): Endpoints {
  const random = seededRandom(seed);
  const troubled = new Map(
    customers.all.map(({ path }, i) => [path, failingTimes(seededRandom(seed * 31 + i), times)]),
  );
  const slowness = new Map<string, number>();
  const mendedAt = new Map<string, number>();
  let recovered = false;

  function inTrouble({ path, trouble }: Customer, at: number, inFlight: number): Reply {
    switch (trouble) {
      case "fails":
        return { status: 500 };
      case "flaps":
        return Math.floor(at / 1_000) % 2 === 0 ? { status: 500 } : OK;
      case "hangs":
        return { status: 504, afterMs: 30_000 };
      case "quiet": {
        const seconds = QUIET_S.least + Math.floor(random() * (QUIET_S.most - QUIET_S.least));
        return { status: 429, headers: { "retry-after": String(seconds) } };
      }
      case "slows": {
        const afterMs = Math.min(SLOWEST_MS, (slowness.get(path) ?? ANSWER_MS) + SLOWER_MS);
        slowness.set(path, afterMs);
        return { status: 200, afterMs };
      }
      case "lies":
        return inFlight > TAKES ? { status: 503 } : OK;
      default:
        return OK;
    }
  }

  return {
    answer: (path, at, { bad, postedAt }, inFlight) => {
      const customer = customers.at(path);
      if (customer === undefined || recovered) return OK;
      if (customer.trouble === "rejects" && bad && postedAt > (mendedAt.get(path) ?? 0))
        return { status: 400 };
      if (troubled.get(path)?.(at)) return inTrouble(customer, at, inFlight);
      slowness.delete(path);
      return OK;
    },
    mend: (path, at) => void mendedAt.set(path, at),
    recover: () => {
      recovered = true;
    },
  };
}
