/**
 * Small scenarios of the delivery path, in which any single call can be made to fail. Together, those in this folder
 * make every call that the path can make.
 */

import { atGate } from "../../../src/gate/client.ts";
import type { DeliveryRow } from "../../../src/store/delivery.ts";
import type { FaultyRuntime } from "../faulty-runtime.ts";
import type { Platform } from "../platform.ts";
import type { Sent } from "../request-log.ts";
import { execute, type World } from "../world.ts";

export const SECOND = 1_000;
export const DAY = 86_400_000;

export type Place = Readonly<{
  world: World;
  platform: Platform;
  runtime: FaultyRuntime;
  destinations: readonly string[];
  /** Every request to a receiver so far. */
  sent: readonly Sent[];
}>;

export type Scenario = Readonly<{
  name: string;
  /** Prepares the scenario; none of its calls fails. */
  prepare?: (place: Place) => Promise<void>;
  run: (place: Place) => Promise<void>;
  /** An operator's action after a fault. */
  operator?: (place: Place) => Promise<unknown>;
  /** How the deliveries of each destination may end; several states where a fault may decide it. */
  ends: readonly (readonly DeliveryRow["state"][])[];
  /** Further faults at the end, in sentences. */
  wrong?: (place: Place) => Promise<readonly string[]>;
}>;

/** An answer that requests a hold of a minute. */
export const held = () => new Response(null, { status: 503, headers: { "retry-after": "60" } });

/** Resumes all paused destinations. */
export async function resume({ runtime, destinations }: Place): Promise<void> {
  await execute("UPDATE destinations SET status = 'active', status_reason = NULL");
  for (const destination of destinations)
    await runtime.invoke("resume", (services) => atGate(services, destination, "resume"));
}
