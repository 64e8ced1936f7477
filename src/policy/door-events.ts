/** What has happened to a door between two moments: each of it once, for the log. */
import { type DestinationState, destinationStateAt } from "./condition.ts";

export type CircuitEvent = "circuit_opened" | "circuit_half_open" | "circuit_closed" | "held" | "hold_ended";

/** A door as it was last seen: `holding` says that the beginning of a hold has been told, and not its end. */
export type ObservedState = Readonly<{ destinationState: DestinationState; holding: boolean }>;

export type CircuitChange = Readonly<{ holding: boolean; events: readonly CircuitEvent[] }>;

/** What has happened from then to `condition`, what time alone has brought by `now` before the rest. */
export function circuitChange(before: ObservedState, destinationState: DestinationState, now: number): CircuitChange {
  const start = destinationStateAt(before.destinationState, now);
  const holding = destinationState.heldUntil > now;
  const isOver = before.holding && start.heldUntil <= now;
  const events = [
    ...circuitEvents(before.destinationState, start),
    ...(isOver ? (["hold_ended"] as const) : []),
    ...circuitEvents(start, destinationState),
    // A hold that is prolonged is the same hold.
    ...(holding && (!before.holding || isOver) ? (["held"] as const) : []),
  ];
  return { holding, events };
}

function circuitEvents({ circuit: before }: DestinationState, { circuit: after }: DestinationState): CircuitEvent[] {
  return after.kind === before.kind ? [] : [circuitTurns[after.kind]];
}

const circuitTurns = {
  open: "circuit_opened",
  half_open: "circuit_half_open",
  closed: "circuit_closed",
} as const;
