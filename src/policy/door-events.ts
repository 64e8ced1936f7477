/** What has happened to a door between two moments: each of it once, for the log. */
import { type Condition, conditionAt } from "./condition.ts";

export type DoorEvent = "circuit_opened" | "circuit_half_open" | "circuit_closed" | "held" | "hold_ended";

/** A door as it was last seen: `holding` says that the beginning of a hold has been told, and not its end. */
export type Door = Readonly<{ condition: Condition; holding: boolean }>;

export type DoorChange = Readonly<{ holding: boolean; events: readonly DoorEvent[] }>;

/** What has happened from then to `condition`, what time alone has brought by `now` before the rest. */
export function doorChange(before: Door, condition: Condition, now: number): DoorChange {
  const start = conditionAt(before.condition, now);
  const holding = condition.heldUntil > now;
  const isOver = before.holding && start.heldUntil <= now;
  const events = [
    ...circuitEvents(before.condition, start),
    ...(isOver ? (["hold_ended"] as const) : []),
    ...circuitEvents(start, condition),
    // A hold that is prolonged is the same hold.
    ...(holding && (!before.holding || isOver) ? (["held"] as const) : []),
  ];
  return { holding, events };
}

function circuitEvents({ circuit: before }: Condition, { circuit: after }: Condition): DoorEvent[] {
  return after.kind === before.kind ? [] : [circuitTurns[after.kind]];
}

const circuitTurns = {
  open: "circuit_opened",
  half_open: "circuit_half_open",
  closed: "circuit_closed",
} as const;
