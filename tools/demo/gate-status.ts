/**
 * The activity of a customer's gate, inferred from the status of its destination and from why deliveries wait: in a few words
 * for the table, and as a sentence for people who have never seen Breakwater.
 */
import { countInStates, type Progress } from "./progress.ts";
import { RETRY_AFTER_S } from "./scenario.ts";

type GateStatus = Readonly<{
  colour: "green" | "yellow" | "red" | "magenta" | "dim";
  text: string;
  sentence?: string;
}>;

type Activity = Progress["status"] | "slow" | "draining" | "held" | "circuit_open" | "probing";

/** By the reason of the first delivery that waits: until its time, and from then on. */
const activities: Readonly<Record<string, readonly [Activity, Activity]>> = {
  circuit_open: ["circuit_open", "probing"],
  probing: ["probing", "probing"],
  hold: ["held", "draining"],
  slow: ["slow", "slow"],
  concurrency: ["slow", "slow"],
};

export function gateStatusOf(progress: Progress, now: number): GateStatus {
  const { customer, status, deliveries } = progress;
  const { name, settings } = customer.profile;
  const first = deliveries.find(({ state }) => state === "waiting");
  const leftMs = Date.parse(first?.waiting_until ?? "") - now;
  const [before, after] = activities[first?.reason ?? ""] ?? (["draining", "draining"] as const);
  const activity = status !== "active" || !first ? status : leftMs > 0 ? before : after;
  const seconds = Math.max(1, Math.ceil(leftMs / 1000));
  const waiting = countInStates(progress, "waiting");
  const most = settings.max_concurrency;
  const all: Readonly<Record<Activity, GateStatus>> = {
    active: { colour: "green", text: "active" },
    slow: {
      colour: "green",
      text: `active, ${most} at a time`,
      sentence: `${name} is slow: never more than ${most} at once; ${waiting} wait their turn.`,
    },
    draining: {
      colour: "green",
      text: "active, draining",
      sentence: `${name} is back: ${waiting} that waited are sent, one first, then more with each success.`,
    },
    held: {
      colour: "yellow",
      text: `held ${seconds} s`,
      sentence: `${name} answered 429, Retry-After: ${RETRY_AFTER_S}: nothing is sent to it for ${seconds} s; ${waiting} wait.`,
    },
    circuit_open: {
      colour: "red",
      text: `circuit open ${seconds} s`,
      sentence: `${name} is failing: circuit open, one request probes it in ${seconds} s; ${waiting} wait.`,
    },
    probing: {
      colour: "yellow",
      text: "probing with one",
      sentence: `${name}: one request probes whether it is back; ${waiting} wait.`,
    },
    paused: {
      colour: "magenta",
      text: "paused: gone",
      sentence: `${name} answered 410 Gone: paused; its owner must decide about ${waiting} events.`,
    },
    deleted: { colour: "dim", text: `deleted, ${countInStates(progress, "cancelled")} cancelled` },
  };
  return all[activity];
}
