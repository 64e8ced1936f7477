/** The sweep's silence, told by whoever notices it: the tick that comes after it, or somebody who asks for health. */
import { isStalled } from "../policy/stall.ts";
import type { Services } from "../services.ts";
import { readHeartbeat } from "../store/sweep.ts";
import { publish } from "./announce.ts";
import { stallEvent } from "./operational-event.ts";

/** Looks, and tells of it when the sweep has fallen silent. */
export async function checkStall(services: Services): Promise<void> {
  await publishStall(services, await readHeartbeat(services.db));
}

/** @param heartbeatAt when a sweep last got through, epoch ms. Told once for each time: its silence has a name. */
export async function publishStall(services: Services, heartbeatAt: number | null): Promise<void> {
  const now = services.now();
  if (!isStalled(heartbeatAt, now)) return;
  services.log({ what: "sweep_stalled", heartbeat_at: heartbeatAt, age_ms: now - heartbeatAt });
  await publish(services, [stallEvent(heartbeatAt, now)]);
}
