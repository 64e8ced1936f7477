/**
 * Durable Objects in virtual time: one gate per destination, each call a round trip, one alarm. Each
 * method does what `src/gate/destination-gate.ts` does: load, let the production function decide, save.
 */
import type { DestinationGate } from "../../../../src/gate/destination-gate.ts";
import { admit, refusalAt } from "../../../../src/policy/admission.ts";
import type { Ask } from "../../../../src/policy/ask.ts";
import { rings } from "../../../../src/policy/bell.ts";
import { figuresOf, type Look } from "../../../../src/policy/gate-figures.ts";
import type { GateSettings } from "../../../../src/policy/gate-settings.ts";
import { type GateState, newGateState } from "../../../../src/policy/gate-state.ts";
import { viewOf } from "../../../../src/policy/gate-view.ts";
import { newsOf } from "../../../../src/policy/news.ts";
import {
  died,
  held,
  holdCleared,
  nothingWaits,
  resumed,
  ringFor,
  type Settlement,
  settle,
} from "../../../../src/policy/settlement.ts";
import type { Engine } from "../engine.ts";

export type Gates = Readonly<{
  binding: DurableObjectNamespace<DestinationGate>;
  /** What the gate of a destination remembers. */
  stateOf: (destination: string) => GateState | undefined;
}>;

/** All that workers call: a method that is missing here must not compile. */
type GateMethod = Exclude<
  keyof DestinationGate,
  keyof Rpc.DurableObjectBranded | "connect" | "alarm" | "fetch" | `webSocket${string}`
>;

/** How late an alarm goes off. */
const ALARM_LATE_MS = 10;

export function virtualGates(
  engine: Engine,
  roundTripMs: number,
  sendDrains: (destination: string, drains: number, abreast: number) => Promise<void>,
): Gates {
  const states = new Map<string, GateState>();
  const load = (name: string) => states.get(name) ?? newGateState(engine.now());

  function save(name: string, before: number | null, after: GateState): void {
    states.set(name, after);
    const { at } = after.bell;
    if (at !== null && at !== before) engine.at(at + ALARM_LATE_MS, () => alarm(name, at));
  }

  /** Goes off unless the alarm has been set to another time since. */
  async function alarm(name: string, at: number): Promise<void> {
    const state = load(name);
    if (state.bell.at !== at) return;
    const { bell, drains, abreast } = rings(state, engine.now());
    save(name, null, { ...state, bell });
    if (drains > 0) await sendDrains(name, drains, abreast);
  }

  async function trip<T>(name: string, call: (state: GateState, now: number) => [GateState, T]): Promise<T> {
    await engine.sleep(roundTripMs / 2);
    const before = load(name);
    const [after, answer] = call(before, engine.now());
    save(name, before.bell.at, after);
    await engine.sleep(roundTripMs / 2);
    return answer;
  }

  const change = (name: string, decide: (state: GateState, now: number) => GateState) =>
    trip(name, (state, now) => [decide(state, now), undefined]);
  const read = <T>(name: string, look: (state: GateState, now: number) => T) =>
    trip(name, (state, now) => [state, look(state, now)]);

  const gate = (name: string): Record<GateMethod, unknown> => ({
    admit: (ask: Ask, settings: GateSettings) =>
      trip(name, (state, now) => {
        const decision = admit(state, ask, settings, now);
        return [decision.state, decision.answer];
      }),
    settle: (settlement: Settlement, settings: GateSettings) =>
      trip(name, (state, now) => {
        const settled = settle(state, settlement, settings, now, engine.random());
        return [settled.state, newsOf(settled, now) ?? null];
      }),
    hold: (until: number) =>
      trip(name, (state, now) => {
        const after = held(state, until, now);
        return [after.state, after.events];
      }),
    clearHold: () =>
      trip(name, (state, now) => {
        const after = holdCleared(state, now);
        return [after.state, after.events];
      }),
    forget: () => trip(name, (_, now) => [newGateState(now), undefined]),
    ring: (why: "waiting" | "resumed") => change(name, why === "resumed" ? resumed : ringFor),
    nothingWaits: (lookedAt: number) => change(name, (state, now) => nothingWaits(state, lookedAt, now)),
    died: (deliveries: number) =>
      trip(name, (state, now) => {
        const after = died(state, deliveries, now);
        return [after.state, after.tollDue];
      }),
    toll: () => read(name, ({ toll }) => toll),
    tollPaid: () => read(name, () => false),
    figures: (look: Look, settings: GateSettings) =>
      read(name, (state, now) => figuresOf(state, [], look, settings, now)),
    look: (settings: GateSettings) =>
      read(name, (state, now) => refusalAt(state, "backlog", settings, now) ?? null),
    condition: () => read(name, (state) => state.condition),
    tryOut: () => read(name, () => null),
    view: (settings: GateSettings) => read(name, (state, now) => viewOf(state, settings, now)),
  });
  const binding = { idFromName: (name: string) => name, get: gate };
  return {
    binding: binding as unknown as DurableObjectNamespace<DestinationGate>,
    stateOf: (destination) => states.get(destination),
  };
}
