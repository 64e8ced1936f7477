/** One sender in one scenario: set up, run to the end, and handed on with everything that was measured. */

import { createEngine, type Engine } from "./engine.ts";
import { attemptsTo } from "./exchange.ts";
import { createLedger, type Ledger } from "./ledger.ts";
import { type Receiver, serverReceiver } from "./receiver.ts";
import { type Post, recoveryOf, type Scenario } from "./scenario.ts";
import type { Contender, Sender } from "./sender.ts";

export type Simulated = Readonly<{ scenario: Scenario; ledger: Ledger; breakdowns: number }>;

/** What has not ended so long after the recovery is not waited for. */
const HORIZON_MS = 48 * 3600_000;

export async function simulate(scenario: Scenario, contender: Contender, seed: number): Promise<Simulated> {
  const engine = createEngine(seed);
  const posts = scenario.posts(engine.random);
  const ledger = createLedger(scenario.receivers);
  const receivers = receiversOf(engine, scenario);
  const attempt = attemptsTo(engine, receivers, (delivery) => posts[delivery]?.receiver ?? 0, ledger);
  const { settings } = scenario;
  const scene = { engine, attempt, ledger, receivers: scenario.receivers, settings };
  postAll(engine, contender.start(scene), ledger, posts);
  await engine.run(() => ledger.ended() === posts.length, recoveryOf(scenario) + HORIZON_MS);
  return { scenario, ledger, breakdowns: receivers.reduce((sum, r) => sum + r.breakdowns(), 0) };
}

function receiversOf(engine: Engine, scenario: Scenario): Receiver[] {
  return Array.from({ length: scenario.receivers }, (_, i) =>
    serverReceiver(engine, scenario.server, (now) => scenario.troubleAt(i, now)),
  );
}

/** Each post sets up the next: there is never more than one in the heap. */
function postAll(engine: Engine, sender: Sender, ledger: Ledger, posts: readonly Post[]): void {
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
