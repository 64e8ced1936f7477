/**
 * The customers of the soak: tenants, their endpoints with limits, and how each endpoint gets into trouble. When it is in
 * trouble follows from the seed.
 */
import { seededRandom } from "../../../src/core/seeded-random.ts";
import type { Reply } from "../../../tools/receiver.ts";
import { type FailingTimes, failingTimes } from "../unreliable-endpoints.ts";

/** What an endpoint does while it is in trouble. */
type Trouble =
  /** None, ever. */
  | "steady"
  /** Answers 500. */
  | "fails"
  /** Answers 500 and 200 in turn, every second or so. */
  | "flaps"
  /** Answers after the sender's timeout, if at all. */
  | "hangs"
  /** Answers 429 and asks for quiet. */
  | "quiet"
  /** Answers ever more slowly. */
  | "slows"
  /** Answers 503 to what is more than three at once, far below the limit that its owner has set. */
  | "lies"
  /** Answers 400 to some events, until it is mended. */
  | "rejects";

export type Customer = Readonly<{
  path: string;
  tenant: string;
  /** Absent: all types. */
  types?: readonly string[];
  trouble: Trouble;
  maxConcurrency: number;
  timeoutMs: number;
}>;

const PATIENT_MS = 5_000;

export const customers: readonly Customer[] = [
  { path: "/acme/steady", tenant: "acme", trouble: "steady", maxConcurrency: 10, timeoutMs: PATIENT_MS },
  {
    path: "/acme/flaps",
    tenant: "acme",
    types: ["order.paid"],
    trouble: "flaps",
    maxConcurrency: 8,
    timeoutMs: PATIENT_MS,
  },
  { path: "/bolt/fails", tenant: "bolt", trouble: "fails", maxConcurrency: 10, timeoutMs: PATIENT_MS },
  {
    path: "/bolt/slows",
    tenant: "bolt",
    types: ["order.paid"],
    trouble: "slows",
    maxConcurrency: 6,
    timeoutMs: PATIENT_MS,
  },
  { path: "/cano/quiet", tenant: "cano", trouble: "quiet", maxConcurrency: 10, timeoutMs: PATIENT_MS },
  { path: "/dune/hangs", tenant: "dune", trouble: "hangs", maxConcurrency: 5, timeoutMs: 2_000 },
  {
    path: "/dune/steady",
    tenant: "dune",
    types: ["order.*"],
    trouble: "steady",
    maxConcurrency: 4,
    timeoutMs: PATIENT_MS,
  },
  { path: "/echo/lies", tenant: "echo", trouble: "lies", maxConcurrency: 20, timeoutMs: PATIENT_MS },
  {
    path: "/echo/rejects",
    tenant: "echo",
    types: ["order.created"],
    trouble: "rejects",
    maxConcurrency: 5,
    timeoutMs: PATIENT_MS,
  },
];

export const tenants: readonly string[] = [...new Set(customers.map(({ tenant }) => tenant))];
export const types: readonly string[] = ["order.created", "order.paid", "user.left"];

/** The endpoints that get an event. */
export function takersOf(tenant: string, type: string): Customer[] {
  const takes = (pattern: string) =>
    pattern === type || (pattern.endsWith(".*") && type.startsWith(pattern.slice(0, -1)));
  return customers.filter((one) => one.tenant === tenant && (one.types?.some(takes) ?? true));
}

/** What is in `data` of the soak's events. */
export type SoakData = Readonly<{
  /** The number of the event. */
  ref: number;
  tenant: string;
  postedAt: number;
  /** The endpoint that rejects refuses it. */
  bad?: true;
}>;

const ANSWER_MS = 20;
/** How much later each answer of the one that slows down comes, up to the longest. */
const SLOWER_MS = 10;
const SLOWEST_MS = 600;
/** What the endpoint that lies takes at once. */
const TAKES = 3;
/** The quiet that is asked for, in seconds. */
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
export function endpoints(seed: number, times: FailingTimes): Endpoints {
  const random = seededRandom(seed);
  const troubled = new Map(
    customers.map(({ path }, i) => [path, failingTimes(seededRandom(seed * 31 + i), times)]),
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
      const customer = customers.find((one) => one.path === path);
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
