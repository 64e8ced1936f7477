/**
 * Shows the demo while it runs: on a terminal one picture that is redrawn in place, a table with a row for each customer and
 * a sentence about what happens; elsewhere a plain line now and then.
 */

import { styleText } from "node:util";
import { gateStatusOf } from "./gate-status.ts";
import { allEnded, countInStates, type Progress } from "./progress.ts";
import { EVENTS } from "./scenario.ts";

type Colour = "none" | "bold" | "dim" | "green" | "yellow" | "red" | "magenta" | "cyan";

/** Coloured, unless the output is a pipe or NO_COLOR is set. */
export function paint(text: string, colour: Colour): string {
  if (colour === "none" || text === "") return text;
  return styleText(colour, text, { stream: process.stdout });
}

export type Frame = Readonly<{
  customers: readonly Progress[];
  posted: number;
  startedAt: number;
  now: number;
}>;

export type Screen = Readonly<{ show: (frame: Frame) => void; leave: () => void }>;

const PLAIN_EVERY_MS = 5_000;
const HIDE_CURSOR = "\x1b[?25l";
const SHOW_CURSOR = "\x1b[?25h";

export function openScreen(out: NodeJS.WriteStream): Screen {
  return out.isTTY && out.columns >= NARROWEST ? pictureOn(out) : linesOn(out);
}

function pictureOn(out: NodeJS.WriteStream): Screen {
  let drawn = 0;
  const leave = () => out.write(SHOW_CURSOR);
  process.once("exit", leave);
  return {
    show: (frame) => {
      const lines = picture(frame, out.columns);
      const back = drawn > 0 ? `\x1b[${drawn}A` : "";
      out.write(`${HIDE_CURSOR}${back}${lines.map((line) => `\x1b[2K${line}\n`).join("")}`);
      drawn = lines.length;
    },
    leave,
  };
}

function picture({ customers, posted, startedAt, now }: Frame, width: number): string[] {
  const title = paint("Breakwater", "bold");
  const clock = paint(`${timeText(now - startedAt)}  ${posted} of ${EVENTS} events posted`, "dim");
  const sentence = currentSentence(customers, startedAt, now).slice(0, width - 5);
  return [
    `  ${title}  ${clock}`,
    "",
    ...tableLines(customers, width, now),
    "",
    `  ${paint("▸", "cyan")} ${sentence}`,
    "",
    ...legendLines(width),
  ];
}

function linesOn(out: NodeJS.WriteStream): Screen {
  let writtenAt = 0;
  return {
    show: (frame) => {
      if (frame.now - writtenAt < PLAIN_EVERY_MS) return;
      writtenAt = frame.now;
      out.write(`${plainLine(frame)}\n`);
    },
    leave: () => {},
  };
}

function plainLine({ customers, posted, startedAt, now }: Frame): string {
  const parts = customers.map((progress) => {
    const { text } = gateStatusOf(progress, now);
    const why = text === "active" ? "" : ` (${text})`;
    return `${progress.customer.profile.name} ${countInStates(progress, "delivered")}/${progress.planned}${why}`;
  });
  return `${timeText(now - startedAt)}  ${posted} posted; delivered: ${parts.join(", ")}`;
}

function timeText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** How long each customer's sentence is shown, in turn, when several have trouble. */
const SENTENCE_MS = 3_000;

/** One sentence on what is happening, for people who have never seen Breakwater. */
function currentSentence(customers: readonly Progress[], startedAt: number, now: number): string {
  if (customers.every(allEnded)) return "Nothing is under way: every delivery has ended.";
  const sentences = customers.flatMap((progress) => gateStatusOf(progress, now).sentence ?? []);
  const turn = Math.floor((now - startedAt) / SENTENCE_MS);
  return sentences[turn % sentences.length] ?? "Every event is delivered as it comes; nothing waits.";
}

type Cell = Readonly<{ text: string; colour: Colour }>;
type Column = Readonly<{
  title: string;
  width: number;
  align: "left" | "right";
  cells: (progress: Progress, now: number) => readonly Cell[];
}>;

const BAR = 16;
const GAP = "  ";

const columns: readonly Column[] = [
  text("destination", 11, ({ customer }) => customer.profile.name, "bold"),
  text("behaviour", 12, ({ customer }) => customer.profile.behaviour, "dim"),
  count("events", 6, ({ planned }) => planned, "none"),
  count("delivered", 9, (s) => countInStates(s, "delivered"), "green"),
  count("retrying", 8, (s) => countInStates(s, "retrying"), "yellow"),
  count("waiting", 7, (s) => countInStates(s, "waiting"), "yellow"),
  count("dead", 4, (s) => countInStates(s, "dead"), "red"),
  { title: "progress", width: BAR, align: "left", cells: bar },
  { title: "status", width: 21, align: "left", cells: (progress, now) => [gateStatusOf(progress, now)] },
];

/** Columns to leave out on a narrow terminal, the least important first. */
const optional = ["progress", "behaviour"];
const layouts = [0, 1, 2].map((omitted) =>
  columns.filter(({ title }) => !optional.slice(0, omitted).includes(title)),
);

/** The narrowest terminal that the table fits on. */
const NARROWEST = Math.min(...layouts.map(widthOf));

function tableLines(customers: readonly Progress[], width: number, now: number): string[] {
  const shown = layoutFor(width);
  const head = shown.map((column) => padded([{ text: column.title, colour: "dim" }], column));
  const rows = customers.map((progress) =>
    shown.map((column) => padded(column.cells(progress, now), column)),
  );
  return [head, ...rows].map((cells) => GAP + cells.join(GAP));
}

/** The meaning of the bars, where there are bars. */
function legendLines(width: number): string[] {
  const words = "█ delivered or ended  ▒ retrying or waiting  ░ in the queue";
  return layoutFor(width).length === columns.length ? [GAP + paint(words, "dim"), ""] : [];
}

function layoutFor(width: number): readonly Column[] {
  return layouts.find((layout) => widthOf(layout) <= width) ?? [];
}

function widthOf(layout: readonly Column[]): number {
  return layout.reduce((sum, { width }) => sum + GAP.length + width, 0);
}

function text(title: string, width: number, of: (s: Progress) => string, colour: Colour): Column {
  return { title, width, align: "left", cells: (s) => [{ text: of(s), colour }] };
}

function count(title: string, width: number, of: (s: Progress) => number, colour: Colour): Column {
  const cell = (n: number): Cell => (n === 0 ? { text: "·", colour: "dim" } : { text: String(n), colour });
  return { title, width, align: "right", cells: (s) => [cell(of(s))] };
}

/** Delivered, ended otherwise, attempted or waiting, and still queued. */
function bar(progress: Progress): Cell[] {
  const cellsOf = (n: number) => Math.round((n / Math.max(1, progress.planned)) * BAR);
  const delivered = cellsOf(countInStates(progress, "delivered"));
  const ended = cellsOf(countInStates(progress, "delivered", "dead", "cancelled"));
  const known = cellsOf(progress.deliveries.length);
  return [
    { text: "█".repeat(delivered), colour: "green" },
    { text: "█".repeat(ended - delivered), colour: "dim" },
    { text: "▒".repeat(known - ended), colour: "yellow" },
    { text: "░".repeat(BAR - known), colour: "dim" },
  ];
}

/** Padded by the visible text: colour codes have no width. */
function padded(cells: readonly Cell[], { width, align }: Column): string {
  const seen = cells.reduce((sum, { text }) => sum + text.length, 0);
  const space = " ".repeat(Math.max(0, width - seen));
  const painted = cells.map(({ text, colour }) => paint(text, colour)).join("");
  return align === "left" ? painted + space : space + painted;
}
