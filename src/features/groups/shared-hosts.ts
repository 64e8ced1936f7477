/** Hosts that many destinations share, where `SHARED_HOSTS` is a number: counted once an hour, by the cron. */
import { HOUR_MS } from "../../core/rollups.ts";
import type { Services } from "../../services.ts";
import { findSharedHosts } from "../../store/group.ts";
import { countSharedHosts } from "../../store/groups.ts";

export async function noteSharedHosts({ config, db, now }: Services): Promise<void> {
  const { sharedHosts: most } = config;
  if (typeof most !== "number") return;
  const counted = await findSharedHosts(db, most);
  if (counted === undefined || counted.countedAt <= now() - HOUR_MS) await countSharedHosts(db, most, now());
}
