/** Gates that have done nothing yet, for worlds in which no delivery is sent: their inboxes are empty. */
import type { FiguresQuery } from "../../src/core/gate-view.ts";
import { INBOX_START } from "../../src/core/inbox.ts";
import { newRollups } from "../../src/core/rollups.ts";
import { figuresOf } from "./figures.ts";
import { idleGateView } from "./idle-gate-view.ts";

/** A missing method does nothing when it is called. */
export function idleGates(now: number) {
  const gate: Readonly<Record<string, unknown>> = {
    refusal: async () => null,
    recheck: async () => [],
    lateInInbox: async () => [],
    lateBefore: async () => 0,
    nextInInbox: async () => ({ kind: "unread", start: INBOX_START, late: [], againAt: null }),
    claimPage: async () => 1,
    commitPage: async () => ({ kind: "committed", position: INBOX_START }),
    inboxConsumers: async () => [],
    seekInInbox: async () => true,
    view: async () => idleGateView,
    figures: async (look: FiguresQuery) => figuresOf(idleGateView, newRollups(now), look, now),
  };
  const called = new Proxy(gate, { get: (known, method: string) => known[method] ?? (async () => null) });
  return { idFromName: (name: string) => name, get: () => called };
}
