/** Which of the deliveries that were brought are to be attempted now, and what becomes of the others. */
import { type DeliverySource, type Readiness, readinessOf } from "../core/triage.ts";
import type { LoadedDelivery } from "../db/deliveries.ts";
import type { Services } from "../services.ts";
import { type Disposition, overRow, standing } from "./outcome.ts";
import { targetFault } from "./url-guard.ts";

export type Triaged = Readonly<{ due: readonly LoadedDelivery[]; dispositions: readonly Disposition[] }>;

export function triage(
  services: Services,
  works: readonly LoadedDelivery[],
  bringer: DeliverySource,
): Triaged {
  const now = services.now();
  const due: LoadedDelivery[] = [];
  const dispositions: Disposition[] = [];
  for (const work of works) {
    const readiness = guarded(services, work, readinessOf(standingOf(work), bringer, now));
    if (readiness.kind === "due") due.push(work);
    else dispositions.push(withoutAttempt(work, readiness, now));
  }
  return { due, dispositions };
}

/** The target is judged at every send: the rules, or the row, may have changed since it was created. */
function guarded(
  { config, log, now }: Services,
  { event, destination }: LoadedDelivery,
  readiness: Readiness,
): Readiness {
  if (readiness.kind !== "due") return readiness;
  // Due only since it was looked up: its body was not asked for.
  if (event.body === undefined) return { kind: "early", at: now() };
  if (event.body === null) return { kind: "over", state: "dead", reason: "corrupt" };
  const fault = targetFault(destination.url, config.allowPrivateDestinations);
  if (fault === undefined) return readiness;
  log({ what: "target_forbidden", destination: destination.id, fault });
  return { kind: "over", state: "dead", reason: "forbidden_target" };
}

function standingOf(work: LoadedDelivery) {
  const { giveUpAt, nextAttemptAt } = standing(work);
  const destinationDeleted = work.destination.deletedAt !== null;
  return { state: work.row?.state, nextAttemptAt, giveUpAt, destinationDeleted };
}

function withoutAttempt(
  work: LoadedDelivery,
  readiness: Exclude<Readiness, { kind: "due" }>,
  now: number,
): Disposition {
  switch (readiness.kind) {
    case "done":
      return { work };
    case "early":
      return { work, againAt: readiness.at };
    case "over":
      return { work, row: overRow(work, readiness.state, readiness.reason, now) };
  }
}
