/** The stack that people build themselves. What builds up in it goes on for minutes: every phase has a new one. */
import { bullmqAlone } from "../throughput/peers.ts";
import { pileUp, type Ready, type Stage, type Subject, warmUp } from "./subject.ts";
import type { Trouble } from "./troubles.ts";

export function peer(stage: Stage): Subject {
  async function ready(trouble: Trouble): Promise<Ready> {
    const running = await bullmqAlone.start(stage.customers.urls);
    await warmUp(running, stage);
    await pileUp(running, stage, trouble);
    return { running, end: running.stop };
  }

  return { contender: bullmqAlone, ready, stop: async () => undefined };
}
