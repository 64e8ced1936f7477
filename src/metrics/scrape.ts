/** Everything that /metrics says, read at once and bounded. */
import type { Services } from "../services.ts";
import { retryingForADay } from "../store/retries.ts";
import { readSystemHealth } from "../store/vitals.ts";
import { destinationFamilies } from "./destination-families.ts";
import type { Family } from "./exposition.ts";
import { type Fleet, readFleet } from "./fleet.ts";
import { queueBacklogs } from "./queue-backlog.ts";
import { coverageFamilies, type Health, vitalFamilies } from "./vital-families.ts";
import { EXPOSED_WINDOWS, windowFamilies } from "./window-families.ts";

export async function scrape(services: Services): Promise<Family[]> {
  const now = services.now();
  const [fleet, vitals, old, backlogs] = await Promise.all([
    readFleet(services, {}, { windows: EXPOSED_WINDOWS, series: false }),
    readSystemHealth(services),
    retryingForADay(services, {}, now),
    queueBacklogs(services),
  ]);
  return familiesOf(fleet, { vitals, retryingForADay: old, backlogs }, now);
}

/** All that there is to expose, of what has been read. */
export function familiesOf(fleet: Fleet, health: Health, now: number): Family[] {
  return [
    ...windowFamilies(fleet),
    ...destinationFamilies(fleet),
    ...vitalFamilies(health, now),
    ...coverageFamilies(fleet),
  ];
}
