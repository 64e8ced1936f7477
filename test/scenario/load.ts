/** A steady load: small batches, one after the other, until it is stopped or the stack dies under it. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ApiClient } from "../../tools/stack.ts";

const BATCH = 5;
const EVERY_MS = 200;

type Accepted = Readonly<{ events: readonly Readonly<{ id: string }>[] }>;

export type Load = Readonly<{ stop: () => Promise<void> }>;

/** @param accepted grows by the ids of the events that were answered with 202 */
export function startLoad(api: ApiClient, accepted: string[]): Load {
  let stopped = false;
  const ended = (async () => {
    while (!stopped) {
      const answer = await postSome(api);
      if (answer === undefined) return;
      accepted.push(...answer.events.map(({ id }) => id));
      await sleep(EVERY_MS);
    }
  })();
  return {
    stop: () => {
      stopped = true;
      return ended;
    },
  };
}

/** Undefined without an answer; the events may have been accepted. */
async function postSome(api: ApiClient): Promise<Accepted | undefined> {
  const events = Array.from({ length: BATCH }, (_, n) => ({ type: "order.created", data: { line: n } }));
  try {
    return await api.post<Accepted>("/v1/events/batch", { events });
  } catch {
    return undefined;
  }
}
