/**
 * The watch: every quarter of an hour the figures are held against their thresholds, and the operator is told of
 * those that are crossed. Only where somebody is told: to look costs a call for each gate.
 *
 * What goes to the operator itself is left out, so that its trouble raises nothing.
 */
import { announce, isTold } from "../delivery/announce.ts";
import { mailboxOf } from "../delivery/mail.ts";
import { thresholdEvent } from "../delivery/operational-event.ts";
import { MINUTE_MS } from "../policy/tallies.ts";
import { crossings } from "../policy/thresholds.ts";
import type { Services } from "../services.ts";
import { isOperatorListening, OPERATOR } from "../store/notices.ts";
import { retryingForADay } from "../store/retries.ts";
import { fleetSum, readFleet } from "./fleet.ts";

const EVERY_MINUTES = 15;

/** For the clock, which comes every minute. */
export async function watch(services: Services): Promise<void> {
  const now = services.now();
  if (Math.floor(now / MINUTE_MS) % EVERY_MINUTES !== 0) return;
  if (!mailboxOf(services) && !(await isOperatorListening(services.db))) return;
  const crossed = crossings(await figuresOfAll(services, now));
  for (const { threshold, value, limit } of crossed)
    services.log({ what: "threshold_crossed", threshold, value, limit });
  await announce(
    services,
    crossed.map((crossing) => thresholdEvent(crossing, now)),
  );
}

async function figuresOfAll(services: Services, now: number) {
  const [fleet, all, own] = await Promise.all([
    readFleet(services, {}, { windows: ["1h", "24h"], series: false }),
    retryingForADay(services, {}, now),
    retryingForADay(services, { tenant: OPERATOR }, now),
  ]);
  const others = { ...fleet, seen: fleet.seen.filter(({ row }) => isTold(row)) };
  return { hour: fleetSum(others, "1h"), day: fleetSum(others, "24h"), retryingForADay: all - own };
}
