/**
 * What the gate of a destination is doing at this moment, told from the outside: from its status and from
 * what its waiting deliveries say they wait for.
 */
import { countOf, type DemoStanding } from "./standing.ts";

export type CircuitSummary = Readonly<
  | { kind: "open" }
  /** Open, and working off what has waited. */
  | { kind: "draining"; reason: string }
  | { kind: "held"; until: number }
  | { kind: "circuit_open"; until: number }
  | { kind: "probing" }
  | { kind: "paused" }
  | { kind: "deleted" }
>;

export function circuitSummaryOf(standing: DemoStanding, now: number): CircuitSummary {
  if (standing.status === "deleted") return { kind: "deleted" };
  if (standing.status === "paused") return { kind: "paused" };
  const first = standing.deliveries.find(({ state }) => state === "waiting");
  if (!first) return { kind: "open" };
  const until = Date.parse(first.waiting_until ?? "");
  switch (first.reason) {
    case "circuit_open":
      return until > now ? { kind: "circuit_open", until } : { kind: "probing" };
    case "probing":
      return { kind: "probing" };
    case "hold":
      return until > now ? { kind: "held", until } : { kind: "draining", reason: "hold" };
    default:
      return { kind: "draining", reason: first.reason ?? "" };
  }
}

/** In a few words, for the table. */
export function circuitText(door: CircuitSummary, standing: DemoStanding, now: number): string {
  switch (door.kind) {
    case "open":
      return "open";
    case "draining":
      return isSlow(door)
        ? `open, ${standing.customer.fate.settings.max_concurrency} at a time`
        : "open, draining";
    case "held":
      return `held ${secondsTo(door.until, now)} s`;
    case "circuit_open":
      return `circuit open ${secondsTo(door.until, now)} s`;
    case "probing":
      return "probing with one";
    case "paused":
      return "paused: gone";
    case "deleted":
      return `deleted, ${countOf(standing, "cancelled")} cancelled`;
  }
}

/** Whether deliveries wait for those before them, and for nothing else. */
export function isSlow(door: CircuitSummary): boolean {
  return door.kind === "draining" && (door.reason === "slow" || door.reason === "concurrency");
}

/** Whole seconds, never less than one while there is something to wait for. */
export function secondsTo(until: number, now: number): number {
  return Math.max(1, Math.ceil((until - now) / 1000));
}
