/** The stack that people build themselves: BullMQ and Redis. It stays backlogged for minutes, so every phase has a new one. */
import { bullmqAlone } from "../throughput/peers.ts";
import type { Fault } from "./faults.ts";
import { type PhasedContender, postBacklog, type Ready, type Setup, warmUp } from "./phased-contender.ts";

export function phasedBullmq(setup: Setup): PhasedContender {
  async function ready(trouble: Fault): Promise<Ready> {
    const running = await bullmqAlone.start(setup.customers.urls);
    await warmUp(running, setup);
    await postBacklog(running, setup, trouble);
    return { running, end: running.stop };
  }

  return { contender: bullmqAlone, ready, stop: async () => undefined };
}
