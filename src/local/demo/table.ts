/** The table: one row for each destination, columns aligned whatever their colours, as wide as there is room. */

import type { Hit } from "../receiver.ts";
import { type Posted, QUIET_S } from "./scenario.ts";
import { type Colour, paint } from "./screen.ts";
import {
  type CircuitSummary,
  circuitSummaryOf,
  circuitText,
  countOf,
  type DemoStanding,
  type Evidence,
  evidenceOf,
} from "./state.ts";

type Cell = Readonly<{ text: string; colour: Colour }>;
type Column = Readonly<{
  title: string;
  width: number;
  align: "left" | "right";
  cells: (standing: DemoStanding, now: number) => readonly Cell[];
}>;

const BAR = 16;
const GAP = "  ";

const columns: readonly Column[] = [
  text("destination", 11, ({ customer }) => customer.fate.name, "bold"),
  text("behaviour", 12, ({ customer }) => customer.fate.behaviour, "dim"),
  count("events", 6, ({ planned }) => planned, "none"),
  count("delivered", 9, (s) => countOf(s, "delivered"), "green"),
  count("retrying", 8, (s) => countOf(s, "retrying"), "yellow"),
  count("waiting", 7, (s) => countOf(s, "waiting"), "yellow"),
  count("dead", 4, (s) => countOf(s, "dead"), "red"),
  { title: "progress", width: BAR, align: "left", cells: bar },
  { title: "door", width: 21, align: "left", cells: door },
];

/** What is left out where there is no room, the most dispensable first. */
const sparable = ["progress", "behaviour"];
const layouts = [0, 1, 2].map((spared) =>
  columns.filter(({ title }) => !sparable.slice(0, spared).includes(title)),
);

/** The narrowest terminal that it fits. */
export const NARROWEST = Math.min(...layouts.map(widthOf));

export function tableLines(standings: readonly DemoStanding[], width: number, now: number): string[] {
  const shown = layoutFor(width);
  const head = shown.map((column) => padded([{ text: column.title, colour: "dim" }], column));
  const rows = standings.map((standing) =>
    shown.map((column) => padded(column.cells(standing, now), column)),
  );
  return [head, ...rows].map((cells) => GAP + cells.join(GAP));
}

/** What the bars are made of, where there are bars. */
export function legendLines(width: number): string[] {
  const words = "█ delivered or ended  ▒ retrying or waiting  ░ in the queue";
  return layoutFor(width).length === columns.length ? [GAP + paint(words, "dim"), ""] : [];
}

function layoutFor(width: number): readonly Column[] {
  return layouts.find((layout) => widthOf(layout) <= width) ?? [];
}

function widthOf(layout: readonly Column[]): number {
  return layout.reduce((sum, { width }) => sum + GAP.length + width, 0);
}

function text(title: string, width: number, of: (s: DemoStanding) => string, colour: Colour): Column {
  return { title, width, align: "left", cells: (s) => [{ text: of(s), colour }] };
}

function count(title: string, width: number, of: (s: DemoStanding) => number, colour: Colour): Column {
  const cell = (n: number): Cell => (n === 0 ? { text: "·", colour: "dim" } : { text: String(n), colour });
  return { title, width, align: "right", cells: (s) => [cell(of(s))] };
}

/** Delivered, otherwise ended, under way with an outcome, and not heard of yet. */
function bar(standing: DemoStanding): Cell[] {
  const cellsOf = (n: number) => Math.round((n / Math.max(1, standing.planned)) * BAR);
  const delivered = cellsOf(countOf(standing, "delivered"));
  const ended = cellsOf(countOf(standing, "delivered", "dead", "cancelled"));
  const known = cellsOf(standing.deliveries.length);
  return [
    { text: "█".repeat(delivered), colour: "green" },
    { text: "█".repeat(ended - delivered), colour: "dim" },
    { text: "▒".repeat(known - ended), colour: "yellow" },
    { text: "░".repeat(BAR - known), colour: "dim" },
  ];
}

const doorColours: Readonly<Record<CircuitSummary["kind"], Colour>> = {
  open: "green",
  draining: "green",
  held: "yellow",
  probing: "yellow",
  circuit_open: "red",
  paused: "magenta",
  deleted: "dim",
};

function door(standing: DemoStanding, now: number): Cell[] {
  const state = circuitSummaryOf(standing, now);
  return [{ text: circuitText(state, standing, now), colour: doorColours[state.kind] }];
}

/** Padded by what is seen, not by what is written: colours take no room. */
function padded(cells: readonly Cell[], { width, align }: Column): string {
  const seen = cells.reduce((sum, { text }) => sum + text.length, 0);
  const space = " ".repeat(Math.max(0, width - seen));
  const painted = cells.map(({ text, colour }) => paint(text, colour)).join("");
  return align === "left" ? painted + space : space + painted;
}

// §§ What remains when all has ended: the figures of each destination, and what its gate did, in a sentence.

const summaryColumns = ["events", "delivered", "attempts", "duplicates", "longest wait"] as const;

export const summaryHead = paint(`  ${"".padEnd(11)}  ${summaryColumns.join("  ")}`, "dim");

export function summaryLines(
  standing: DemoStanding,
  posted: readonly Posted[],
  hits: readonly Hit[],
): string[] {
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
