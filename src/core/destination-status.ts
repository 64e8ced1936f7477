/**
 * The present activity of a destination, as pages show it: one of a few kinds, with the figures that explain it. The words
 * are those of the page and its language. Times in epoch ms.
 */
import type { GateView } from "./gate-view.ts";

type Attempts = Readonly<{ attempts: number; failures: number }>;

export type DestinationStatus =
  | Readonly<{ kind: "paused"; reason: string | null }>
  /** The gate does not answer. */
  | Readonly<{ kind: "unknown" }>
  | Readonly<{ kind: "hold"; until: number }>
  /** `last`: the attempts of the last 15 minutes; absent when none of them failed. */
  | Readonly<{ kind: "circuit_open"; until: number; trips: number; last?: Attempts }>
  | Readonly<{ kind: "probing"; trips: number }>
  | Readonly<{ kind: "storm"; retryRatio: number }>
  | Readonly<{ kind: "rate_limited"; until: number | null }>
  | Readonly<{ kind: "idle" }>
  | (Attempts & Readonly<{ kind: "failing" | "healthy" }>)
  | (Attempts & Readonly<{ kind: "recovering"; window: number }>);

export type DestinationNow = Readonly<{
  status: "active" | "paused";
  statusReason: string | null;
  maxConcurrency: number;
  /** Undefined when the gate cannot be reached. */
  view: GateView | undefined;
}>;

export function destinationStatus(
  { status, statusReason, maxConcurrency, view }: DestinationNow,
  now: number,
): DestinationStatus {
  if (status === "paused") return { kind: "paused", reason: statusReason };
  if (view === undefined) return { kind: "unknown" };
  return blocked(view, now) ?? active(view, maxConcurrency);
}

/** While a hold or the circuit blocks the destination; of the two, the one that lasts longer. */
function blocked(view: GateView, now: number): DestinationStatus | undefined {
  const { circuit, circuitUntil, heldUntil, trips } = view;
  if (heldUntil !== null && heldUntil > now && heldUntil >= (circuitUntil ?? 0))
    return { kind: "hold", until: heldUntil };
  if (circuitUntil !== null) {
    const last = recentFailures(view);
    return { kind: "circuit_open", until: circuitUntil, trips, ...(last && { last }) };
  }
  return circuit === "half_open" ? { kind: "probing", trips } : undefined;
}

function recentFailures({ minutes, traffic }: GateView): Attempts | undefined {
  const failures = minutes.reduce((sum, { troubled }) => sum + troubled, 0);
  return failures > 0 ? { attempts: traffic.first + traffic.retries, failures } : undefined;
}

function active({ traffic, window, refusal }: GateView, maxConcurrency: number): DestinationStatus {
  if (traffic.storm) return { kind: "storm", retryRatio: traffic.retryRatio };
  if (refusal?.reason === "rate") return { kind: "rate_limited", until: refusal.until };
  const attempts = traffic.first + traffic.retries;
  const { failures } = traffic;
  if (attempts === 0) return { kind: "idle" };
  if (failures * 2 > attempts) return { kind: "failing", attempts, failures };
  if (window < maxConcurrency && failures > 0) return { kind: "recovering", attempts, failures, window };
  return { kind: "healthy", attempts, failures };
}
