/**
 * A small story of the delivery path, told over a wire, so that any one call of it can be made to fail. The
 * stories beside this between them make every call that the path can make.
 */

import type { DeliveryRow } from "../../../src/db/schema.ts";
import { resumeAtGate } from "../../../src/gate/client.ts";
import type { Platform } from "../platform.ts";
import type { Wire } from "../wire.ts";
import { execute, type World } from "../world.ts";

export const SECOND = 1_000;
export const DAY = 86_400_000;

export type Place = Readonly<{
  world: World;
  platform: Platform;
  wire: Wire;
  destinations: readonly string[];
}>;

export type Story = Readonly<{
  name: string;
  tell: (place: Place) => Promise<void>;
  /** What a person does about it when it has gone wrong. */
  person?: (place: Place) => Promise<unknown>;
  /** How each delivery of the destination so numbered must end; several where a fault may decide it. */
  ends: readonly (readonly DeliveryRow["state"][])[];
}>;

/** An answer that asks for a minute of quiet. */
export const held = () => new Response(null, { status: 503, headers: { "retry-after": "60" } });

/** Lets all destinations go on that have been paused. */
export async function resume({ wire, destinations }: Place): Promise<void> {
  await execute("UPDATE destinations SET status = 'active', status_reason = NULL");
  for (const destination of destinations)
    await wire.invoke("resume", (services) => resumeAtGate(services, destination));
}
