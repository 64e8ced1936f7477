/**
 * A simulated outage: the effect of a retry policy on a receiver that is down for a while, with Breakwater's gate in
 * front of it or with a plain job queue. Pure and bounded, so that a page can run it while its visitor waits.
 *
 * The same seed gives the same figures. Gate, leases and retries are the production code of src/core.
 */
import type { GateSettings } from "../core/limits.ts";
import type { RetryPolicy } from "../core/retry/policy.ts";
import { type Figures, type Simulated, simulationFiguresOf } from "./figures.ts";
import { startGatedSender } from "./gated-sender.ts";
import { queueWith, startJobQueue } from "./job-queue.ts";
import { createLedger, type Ledger } from "./ledger.ts";
import { capacityOf, openReceiver } from "./receiver.ts";
import { FINE, isWithin, recoveryOf, type Scenario, type ScheduledPost, steady } from "./scenario.ts";
import { attemptsTo, type SenderContext, type SimulatedSender } from "./sender.ts";
import { promisesSettled, type VirtualTime, virtualTime } from "./virtual-time.ts";

export type Outage = Readonly<{
  /** How long the receiver answers nothing but 503. */
  lastsMs: number;
  /** Deliveries a second: in the minute before, during the outage, and for five minutes after it. */
  perSecond: number;
  /** The receiver's capacity: the number of requests at once, and the time of each. More than 300 queued bring it down. */
  slots: number;
  serviceMs: number;
}>;

export type OutageReport = Figures &
  Readonly<{
    /** Requests a second that the receiver can serve. */
    capacity: number;
    /** Requests that reached it, by the second from the beginning; the outage begins at second 60. */
    arrivals: readonly number[];
    /** Requests of these that did not succeed. */
    failures: readonly number[];
    delivered: number;
    /** False when the steps were used up before every delivery had ended: the figures are about the part that ran. */
    complete: boolean;
  }>;

/** Actions of one simulation: about a second of a Worker's time at most. */
const STEPS = 600_000;
const BEFORE_MS = 60_000;
const AFTER_MS = 300_000;

/**
 * Never longer than its steps take: it awaits nothing but its own actions.
 * @param gate the destination's limits; null for a job queue without a gate, as is usual
 * @param seed any whole number
 * @param steps actions of the simulation at most, posts and timeouts included: about ten a delivery
 */
export async function simulateOutage(
  policy: RetryPolicy,
  gate: GateSettings | null,
  outage: Outage,
  seed: number,
  steps = STEPS,
): Promise<OutageReport> {
  const time = virtualTime(seed);
  const scenario = scenarioOf(outage, gate);
  const { context, postTo, isOver, horizonAt, result } = prepareScenario(time, scenario);
  postTo(gate ? startGatedSender(policy, gate, context) : startJobQueue(queueWith(policy), context));
  for (let run = 0; run < steps && !isOver() && (time.nextAt() ?? Infinity) <= horizonAt; run++)
    if (time.step()) await promisesSettled();
  const simulated = result();
  const figures = simulationFiguresOf(simulated);
  const { arrivals, failures, deliveries } = simulated.ledger;
  return {
    ...figures,
    capacity: capacityOf(scenario.server),
    arrivals: filled(arrivals[0]),
    failures: filled(failures[0]),
    delivered: deliveries.length - figures.lost - figures.pending,
    complete: isOver(),
  };
}

function scenarioOf({ lastsMs, perSecond, slots, serviceMs }: Outage, gate: GateSettings | null): Scenario {
  const troubles = [{ from: BEFORE_MS, to: BEFORE_MS + lastsMs }];
  return {
    name: "outage",
    title: "Down for a while",
    server: { slots, serviceMs, strain: 100, bound: 300, restartMs: 60_000 },
    receivers: 1,
    watched: () => true,
    troubles,
    troubleAt: (_, now) => (isWithin(troubles, now) ? { kind: "down" } : FINE),
    posts: (random) => steady(perSecond, { from: 0, to: BEFORE_MS + lastsMs + AFTER_MS }, 0, random),
    settings: gate ?? {},
  };
}

/** Seconds in which nothing happened have no place in the ledger. */
function filled(bins: readonly number[] = []): number[] {
  return Array.from(bins, (count) => count ?? 0);
}

/** A scenario ready to run: its receivers, the network, the ledger, and every post at its time. */
type ScenarioRun<Time extends VirtualTime> = Readonly<{
  context: SenderContext & Readonly<{ engine: Time }>;
  /** Hands all posts to this sender, each at its time. */
  postTo: (sender: SimulatedSender) => void;
  /** Whether every delivery has ended. */
  isOver: () => boolean;
  /** The run ends here, whether or not every delivery has ended. */
  horizonAt: number;
  result: () => Simulated;
}>;

const HORIZON_MS = 48 * 3600_000;

export function prepareScenario<Time extends VirtualTime>(
  engine: Time,
  scenario: Scenario,
): ScenarioRun<Time> {
  const posts = scenario.posts(engine.random);
  const ledger = createLedger(scenario.receivers);
  const servers = Array.from({ length: scenario.receivers }, (_, i) =>
    openReceiver(engine, scenario.server, (now) => scenario.troubleAt(i, now)),
  );
  const { serverOf = (receiver: number) => receiver } = scenario;
  const receivers = servers.flatMap((_, i) => servers[serverOf(i)] ?? []);
  const attempt = attemptsTo(engine, receivers, (delivery) => posts[delivery]?.receiver ?? 0, ledger);
  const breakdowns = () => servers.reduce((sum, receiver) => sum + receiver.breakdowns(), 0);
  return {
    context: { engine, attempt, ledger },
    postTo: (sender) => postAll(engine, sender, ledger, posts),
    isOver: () => ledger.ended() === posts.length,
    horizonAt: recoveryOf(scenario) + HORIZON_MS,
    result: () => ({ scenario, ledger, breakdowns: breakdowns() }),
  };
}

/** Each post sets up the next: so that the heap never holds more than one. */
function postAll(
  engine: VirtualTime,
  sender: SimulatedSender,
  ledger: Ledger,
  posts: readonly ScheduledPost[],
): void {
  function post(delivery: number): void {
    const next = posts[delivery];
    if (!next) return;
    engine.at(next.at, () => {
      ledger.accepted(delivery, next.receiver, engine.now());
      sender.post(delivery, next.receiver);
      post(delivery + 1);
    });
  }
  post(0);
}
