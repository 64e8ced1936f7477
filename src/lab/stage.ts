/** A scenario set up: receivers, the way to them, the ledger, and every post at its time. */
import { attemptsTo } from "./exchange.ts";
import type { Simulated } from "./figures.ts";
import { createLedger, type Ledger } from "./ledger.ts";
import { type Receiver, serverReceiver } from "./receiver.ts";
import { type Post, recoveryOf, type Scenario } from "./scenario.ts";
import type { Scene, Sender } from "./sender.ts";
import type { VirtualTime } from "./virtual-time.ts";

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
