/** What remains when all has ended: the figures of each destination, and what its gate did, in a sentence. */
import type { Hit } from "../receiver.ts";
import { type Evidence, evidenceOf } from "./evidence.ts";
import { QUIET_S } from "./fates.ts";
import { paint } from "./paint.ts";
import { countOf, type DemoStanding } from "./standing.ts";
import type { Posted } from "./traffic.ts";

const summaryColumns = ["events", "delivered", "attempts", "duplicates", "longest wait"] as const;

export const summaryHead = paint(`  ${"".padEnd(11)}  ${summaryColumns.join("  ")}`, "dim");

export function summaryLines(standing: DemoStanding, posted: readonly Posted[], hits: readonly Hit[]): string[] {
  const evidence = evidenceOf(hits);
  const figures: Readonly<Record<(typeof summaryColumns)[number], string | number>> = {
    events: standing.planned,
    delivered: countOf(standing, "delivered"),
    attempts: evidence.attempts,
    duplicates: evidence.duplicates,
    "longest wait": longestWait(standing, posted),
  };
  const cells = summaryColumns.map((title) => String(figures[title]).padStart(title.length));
  return [
    `  ${paint(standing.customer.fate.name.padEnd(11), "bold")}  ${cells.join("  ")}`,
    paint(`    ${whatTheGateDid(standing, evidence)}`, "dim"),
  ];
}

/** From the answer to the post until the delivery, of the one that took longest. */
function longestWait({ deliveries }: DemoStanding, posted: readonly Posted[]): string {
  const acceptedAt = new Map(posted.map(({ id, at }) => [id, at]));
  const waits = deliveries.flatMap(({ event_id: event, delivered_at: at }) => {
    const from = acceptedAt.get(event);
    return at === undefined || from === undefined ? [] : [Date.parse(at) - from];
  });
  return waits.length === 0 ? "–" : `${(Math.max(0, ...waits) / 1000).toFixed(1)} s`;
}

function whatTheGateDid(standing: DemoStanding, evidence: Evidence): string {
  const { attempts, refused, quiets, early, atOnce } = evidence;
  switch (standing.customer.fate.name) {
    case "billing":
      return `Its circuit opened: ${refused} requests in 15 s of failing, then from one upwards.`;
    case "crm":
      return `Asked for quiet ${quiets} times: shut for ${QUIET_S} s each time; ${inQuiet(early)}.`;
    case "warehouse":
      return `Slow: ${atOnce} requests at once and never more; the rest waited in D1.`;
    case "old-app":
      return `Gone after ${attempts} request${attempts === 1 ? "" : "s"}, so paused; ${countOf(standing, "cancelled")} cancelled when its owner deleted it.`;
    default:
      return attempts === standing.planned
        ? "Healthy: everything went through at the first attempt."
        : `Healthy: everything went through; ${attempts - standing.planned} attempts were repeats.`;
  }
}

function inQuiet(early: readonly number[]): string {
  return early.length === 0 ? "nothing came" : `${early.length} still came, let in before`;
}
