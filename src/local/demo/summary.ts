/** What remains when all has ended: the figures of each destination, and what its gate did, in a sentence. */
import type { Hit } from "../receiver.ts";
import { type Evidence, evidenceOf } from "./evidence.ts";
import { QUIET_S } from "./fates.ts";
import { paint } from "./paint.ts";
import { countOf, type Standing } from "./standing.ts";
import type { Posted } from "./traffic.ts";

export function summaryLines(standing: Standing, posted: readonly Posted[], hits: readonly Hit[]): string[] {
  const evidence = evidenceOf(hits);
  const figures = [
    [standing.planned, "events"],
    [countOf(standing, "delivered"), "delivered"],
    [evidence.attempts, "attempts"],
    [evidence.duplicates, "duplicates"],
  ].map(([n, what]) => `${String(n).padStart(4)} ${what}`);
  const name = paint(standing.customer.fate.name.padEnd(11), "bold");
  return [
    `  ${name} ${figures.join(" ")}   ${longestWait(standing, posted)}`,
    `  ${" ".repeat(11)} ${paint(whatTheGateDid(standing, evidence), "dim")}`,
  ];
}

function longestWait({ deliveries }: Standing, posted: readonly Posted[]): string {
  const acceptedAt = new Map(posted.map(({ id, at }) => [id, at]));
  const waits = deliveries.flatMap(({ event_id: event, delivered_at: at }) => {
    const from = acceptedAt.get(event);
    return at === undefined || from === undefined ? [] : [Date.parse(at) - from];
  });
  return waits.length === 0 ? "" : `longest wait ${(Math.max(0, ...waits) / 1000).toFixed(1)} s`;
}

function whatTheGateDid(standing: Standing, evidence: Evidence): string {
  const { fate } = standing.customer;
  const retried = evidence.attempts - standing.planned;
  switch (fate.name) {
    case "billing":
      return `Opened the circuit: only ${evidence.refused} requests reached it while it was failing. Then began with one again.`;
    case "crm":
      return `Asked for quiet ${evidence.quiets} times: the whole door stayed shut for ${QUIET_S} s each time; ${evidence.early} requests came early.`;
    case "warehouse":
      return `Slow, so never more than ${evidence.atOnce} requests at once, and the others did not feel it.`;
    case "old-app":
      return `410 Gone: ${evidence.attempts} ${evidence.attempts === 1 ? "request" : "requests"}, then paused; ${countOf(standing, "cancelled")} cancelled when its owner deleted it.`;
    default:
      return retried === 0
        ? "Healthy: everything was let through at the first attempt, whatever the others did."
        : `Healthy: everything was let through; ${retried} attempts were repeated.`;
  }
}
