/** Which of the deliveries that were brought are to be attempted now, and what becomes of the others. */
import { type Bringer, type Readiness, readinessOf } from "../policy/readiness.ts";
import type { Services } from "../services.ts";
import type { Work } from "../store/work.ts";
import { overRow, standing } from "./outcome-rows.ts";
import { targetFault } from "./target.ts";
import type { Verdict } from "./verdicts.ts";

export type Sorted = Readonly<{ due: readonly Work[]; verdicts: readonly Verdict[] }>;

export function sortOut(services: Services, works: readonly Work[], bringer: Bringer): Sorted {
  const now = services.now();
  const due: Work[] = [];
  const verdicts: Verdict[] = [];
  for (const work of works) {
    const readiness = guarded(services, work, readinessOf(standingOf(work), bringer, now));
    if (readiness.kind === "due") due.push(work);
    else verdicts.push(withoutAttempt(work, readiness, now));
  }
  return { due, verdicts };
}

/** The target is judged at every send: the rules, or the row, may have changed since it was created. */
function guarded(
  { config, log, now }: Services,
  { event, destination }: Work,
  readiness: Readiness,
): Readiness {
  if (readiness.kind !== "due") return readiness;
  // Due only since it was looked up: its body was not asked for.
  if (event.body === undefined) return { kind: "early", at: now() };
  if (event.body === null) return { kind: "over", state: "dead", because: "corrupt" };
  const fault = targetFault(destination.url, config.allowPrivateDestinations);
  if (fault === undefined) return readiness;
  log({ what: "target_forbidden", destination: destination.id, fault });
  return { kind: "over", state: "dead", because: "forbidden_target" };
}

function standingOf(work: Work) {
  const { giveUpAt, nextAttemptAt } = standing(work);
  const destinationDeleted = work.destination.deletedAt !== null;
  return { state: work.row?.state, nextAttemptAt, giveUpAt, destinationDeleted };
}

function withoutAttempt(work: Work, readiness: Exclude<Readiness, { kind: "due" }>, now: number): Verdict {
  switch (readiness.kind) {
    case "done":
      return { work };
    case "early":
      return { work, againAt: readiness.at };
    case "over":
      return { work, row: overRow(work, readiness.state, readiness.because, now) };
  }
}
