/**
 * The watch: every quarter of an hour the figures are held against their thresholds, and the operator is told of
 * those that are crossed. Only where somebody is told: to look costs a call for each gate.
 *
 * What goes to the operator itself is left out, so that its trouble raises nothing.
 */
import { announce } from "../delivery/announce.ts";
import { mailboxOf } from "../delivery/mail.ts";
import { thresholdEvent } from "../delivery/operational-event.ts";
import { MINUTE_MS } from "../policy/tallies.ts";
import { emptyTally } from "../policy/tally.ts";
import { crossings } from "../policy/thresholds.ts";
import type { Services } from "../services.ts";
import { isOperatorListening, OPERATOR } from "../store/notices.ts";
import { retryingForADay } from "../store/retries.ts";
import { GATES_WATCHED, tallyOfAll } from "./fleet.ts";

const EVERY_MINUTES = 15;

/** For the clock, which comes every minute. */
export async function watch(services: Services): Promise<void> {
  const now = services.now();
  if (Math.floor(now / MINUTE_MS) % EVERY_MINUTES !== 0) return;
  if (!mailboxOf(services) && !(await isOperatorListening(services.db))) return;
  const crossed = crossings(await figuresOfAll(services, now));
  for (const { threshold, value, limit } of crossed)
    services.log({ what: "threshold_crossed", threshold, value, limit });
  await announce(services, ...crossed.map((crossing) => thresholdEvent(crossing, now)));
}

/**
 * Rates are judged over all destinations or not at all: those of a part would be false alarms, or false calm.
 * Where there are too many to ask, a log line says that no rate is judged.
 */
async function figuresOfAll(services: Services, now: number) {
  const [sums, all, own] = await Promise.all([
    tallyOfAll(services, ["1h", "24h"], OPERATOR),
    retryingForADay(services, {}, now),
    retryingForADay(services, { tenant: OPERATOR }, now),
  ]);
  if (sums === undefined) services.log({ what: "rates_unwatched", destinations_above: GATES_WATCHED });
  const none = emptyTally(now);
  return { hour: sums?.["1h"] ?? none, day: sums?.["24h"] ?? none, retryingForADay: all - own };
}
