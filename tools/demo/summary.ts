/** The end of the demo: figures for each customer, what went wrong, and what to try next. */
import { addressLines } from "../flags.ts";
import type { Hit, ReceiverServer } from "../receiver.ts";
import { brokenPromises, countInStates, type Evidence, evidenceOf, type Progress } from "./progress.ts";
import type { DemoResult } from "./run.ts";
import { type Posted, RETRY_AFTER_S } from "./scenario.ts";
import { paint } from "./screen.ts";

/** Prints the figures and the result; returns the faults. */
export function printSummary({ customers, posted }: DemoResult, { hits }: ReceiverServer): string[] {
  const hitsOf = (path: string) => hits.filter((hit) => hit.path === path);
  console.log(`\n${summaryHead}`);
  for (const progress of customers)
    console.log(summaryLines(progress, posted, hitsOf(progress.customer.path)).join("\n"));
  const faults = customers.flatMap((each) => brokenPromises(each, posted, hitsOf(each.customer.path)));
  if (faults.length === 0)
    console.log(paint(`\n  ✓ Nothing was lost, all ${hits.length} signatures verified.`, "green"));
  printFaults(faults);
  return faults;
}

export function printFaults(faults: readonly string[]): void {
  for (const fault of faults) console.error(paint(`\n  ✗ ${fault}`, "red"));
}

/** Suggestions for the next steps, with the ids and the key of the demo that is still running. */
export function tryItLines(url: string, key: string, { customers, posted }: DemoResult): string[] {
  const idOf = (name: string) =>
    customers.find(({ customer }) => customer.profile.name === name)?.customer.id;
  const call = `curl -s -H "Authorization: Bearer $BREAKWATER_KEY"`;
  const [billing, oldApp, storefront] = [idOf("billing"), idOf("old-app"), idOf("storefront")];
  return [
    "",
    "Breakwater is still up; Ctrl-C ends it.",
    addressLines(url, key),
    "",
    "To try, in another terminal:",
    "",
    `export BREAKWATER_KEY='${key}'`,
    "",
    "# one of the events, and every delivery of it",
    `${call} ${url}/v1/events/${posted[0]?.id ?? ""}`,
    "# why billing took so long: every attempt is in the log",
    `${call} "${url}/v1/deliveries?destination_id=${billing}&limit=3"`,
    "# which deliveries are dead, and why",
    `${call} "${url}/v1/deliveries?destination_id=${oldApp}&state=dead"`,
    "# an event of your own",
    `${call} --json '{"type":"order.created","data":{"hello":"world"}}' ${url}/v1/events`,
    "# pause a destination, and resume it",
    `${call} -X POST ${url}/v1/destinations/${storefront}/pause`,
    `${call} -X POST ${url}/v1/destinations/${storefront}/resume`,
    "",
  ];
}

const summaryColumns = ["events", "delivered", "attempts", "duplicates", "longest wait"] as const;

const summaryHead = paint(`  ${"".padEnd(11)}  ${summaryColumns.join("  ")}`, "dim");

function summaryLines(progress: Progress, posted: readonly Posted[], hits: readonly Hit[]): string[] {
  const evidence = evidenceOf(hits);
  const figures: Readonly<Record<(typeof summaryColumns)[number], string | number>> = {
    events: progress.planned,
    delivered: countInStates(progress, "delivered"),
    attempts: evidence.attempts,
    duplicates: evidence.duplicates,
    "longest wait": longestWait(progress, posted),
  };
  const cells = summaryColumns.map((title) => String(figures[title]).padStart(title.length));
  return [
    `  ${paint(progress.customer.profile.name.padEnd(11), "bold")}  ${cells.join("  ")}`,
    paint(`    ${gateSummary(progress, evidence)}`, "dim"),
  ];
}

/** The longest time from the 202 to the delivery. */
function longestWait({ deliveries }: Progress, posted: readonly Posted[]): string {
  const acceptedAt = new Map(posted.map(({ id, at }) => [id, at]));
  const waits = deliveries.flatMap(({ event_id: event, delivered_at: at }) => {
    const from = acceptedAt.get(event);
    return at === undefined || from === undefined ? [] : [Date.parse(at) - from];
  });
  return waits.length === 0 ? "–" : `${(Math.max(0, ...waits) / 1000).toFixed(1)} s`;
}

function gateSummary(progress: Progress, evidence: Evidence): string {
  const { attempts, failed, holds, early, atOnce } = evidence;
  const sent = early.length === 0 ? "nothing was sent" : `${early.length} still came, admitted before`;
  switch (progress.customer.profile.name) {
    case "billing":
      return `Its circuit opened: ${failed} requests in 15 s of failing, then from one upwards.`;
    case "crm":
      return `Answered 429 ${holds} times: held for ${RETRY_AFTER_S} s each time; ${sent}.`;
    case "warehouse":
      return `Slow: ${atOnce} requests at once and never more; the rest waited in D1.`;
    case "old-app":
      return `Gone after ${attempts} request${attempts === 1 ? "" : "s"}, so paused; ${countInStates(progress, "cancelled")} cancelled when its owner deleted it.`;
    default:
      return attempts === progress.planned
        ? "Healthy: everything went through at the first attempt."
        : `Healthy: everything went through; ${attempts - progress.planned} attempts were repeats.`;
  }
}
