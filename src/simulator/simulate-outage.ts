/**
 * One outage, simulated: what a retry policy does to a receiver that is down for a while, with Breakwater's gate
 * in front of it or with a plain job queue. Pure and bounded, so that a page can run it while somebody waits.
 *
 * The same seed gives the same figures. All decisions are the production functions of src/policy.
 */
import type { GateSettings } from "../core/limits.ts";
import type { RetryPolicy } from "../core/retry/policy.ts";
import { createLedger, type Figures, figuresOf, type Ledger, type Simulated } from "./figures.ts";
import { startGatedSender } from "./gated-sender.ts";
import { queueWith, startJobQueue } from "./job-queue.ts";
import { type Attempt, attemptsTo } from "./lease-run.ts";
import { capacityOf, type Receiver, serverReceiver } from "./receiver.ts";
import { FINE, isIn, type Post, recoveryOf, type Scenario, steady } from "./scenario.ts";
import { type VirtualTime, virtualTime } from "./virtual-time.ts";

// §§ A scenario set up: receivers, the way to them, the ledger, and every post at its time.

export type Stage<Time extends VirtualTime> = Readonly<{
  scene: Scene & Readonly<{ engine: Time }>;
  /** Hands all posts to this sender, each at its time. */
  enter: (sender: Sender) => void;
  /** Whether every delivery has ended. */
  isOver: () => boolean;
  /** What has not ended by then is not waited for. */
  horizonAt: number;
  end: () => Simulated;
}>;

const HORIZON_MS = 48 * 3600_000;

export function stageFor<Time extends VirtualTime>(engine: Time, scenario: Scenario): Stage<Time> {
  const posts = scenario.posts(engine.random);
  const ledger = createLedger(scenario.receivers);
  const receivers = Array.from({ length: scenario.receivers }, (_, i) =>
    serverReceiver(engine, scenario.server, (now) => scenario.troubleAt(i, now)),
  );
  const attempt = attemptsTo(engine, receivers, (delivery) => posts[delivery]?.receiver ?? 0, ledger);
  const breakdowns = () =>
    receivers.reduce((sum: number, receiver: Receiver) => sum + receiver.breakdowns(), 0);
  return {
    scene: { engine, attempt, ledger },
    enter: (sender) => postAll(engine, sender, ledger, posts),
    isOver: () => ledger.ended() === posts.length,
    horizonAt: recoveryOf(scenario) + HORIZON_MS,
    end: () => ({ scenario, ledger, breakdowns: breakdowns() }),
  };
}

/** Each post sets up the next: there is never more than one in the heap. */
function postAll(engine: VirtualTime, sender: Sender, ledger: Ledger, posts: readonly Post[]): void {
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

export type Outage = Readonly<{
  /** How long the receiver answers nothing but 503. */
  lastsMs: number;
  /** Deliveries a second: in the minute before, during the outage, and for five minutes after it. */
  perSecond: number;
  /** What the receiver can do: so many requests at once, each for so long. More than 300 waiting bring it down. */
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
    /** False when the steps were used up before every delivery had ended: the figures are of what was played. */
    complete: boolean;
  }>;

/** A moment's action each: about a second of a Worker's time at most. */
const STEPS = 600_000;
const BEFORE_MS = 60_000;
const AFTER_MS = 300_000;

/**
 * @param gate the destination's limits; null for a job queue without a gate, as is usual
 * @param seed any whole number
 * @param steps actions of the simulation at most, posts and timeouts included: about ten a delivery
 */
export function simulateOutage(
  policy: RetryPolicy,
  gate: GateSettings | null,
  outage: Outage,
  seed: number,
  steps = STEPS,
): OutageReport {
  const time = virtualTime(seed);
  const scenario = scenarioOf(outage, gate);
  const { scene, enter, isOver, horizonAt, end } = stageFor(time, scenario);
  enter(gate ? startGatedSender(policy, gate, scene) : startJobQueue(queueWith(policy), scene));
  for (let run = 0; run < steps && !isOver() && (time.nextAt() ?? Infinity) <= horizonAt; )
    run += time.step();
  const simulated = end();
  const figures = figuresOf(simulated);
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
    troubleAt: (_, now) => (isIn(troubles, now) ? { kind: "down" } : FINE),
    posts: (random) => steady(perSecond, { from: 0, to: BEFORE_MS + lastsMs + AFTER_MS }, 0, random),
    settings: gate ?? {},
  };
}

/** Seconds in which nothing happened have no place in the ledger. */
function filled(bins: readonly number[] = []): number[] {
  return Array.from(bins, (count) => count ?? 0);
}

// §§ A sender under test: it is handed deliveries and makes attempts as its design would.

export type Scene = Readonly<{ engine: VirtualTime; attempt: Attempt; ledger: Ledger }>;

export type Sender = Readonly<{ post: (delivery: number, receiver: number) => void }>;
