/**
 * Where the demo is shown: on a terminal as one picture that is drawn again in place, anywhere else as a
 * plain line now and then.
 */

import { styleText } from "node:util";
import { EVENTS } from "./scenario.ts";
import { circuitSummaryOf, circuitText, countOf, type DemoStanding } from "./state.ts";
import { storyLines } from "./story.ts";
import { legendLines, NARROWEST, tableLines } from "./table.ts";

// §§ Colour, where it can be seen and is wanted: not in a pipe, not under NO_COLOR.

export type Colour = "none" | "bold" | "dim" | "green" | "yellow" | "red" | "magenta" | "cyan";

export function paint(text: string, colour: Colour): string {
  if (colour === "none" || text === "") return text;
  return styleText(colour, text, { stream: process.stdout });
}

export type Frame = Readonly<{
  standings: readonly DemoStanding[];
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

function picture({ standings, posted, startedAt, now }: Frame, width: number): string[] {
  const title = paint("Breakwater", "bold");
  const clock = paint(`${timeText(now - startedAt)}  ${posted} of ${EVENTS} events posted`, "dim");
  const sentence = storyLines(standings, startedAt, now).slice(0, width - 5);
  return [
    `  ${title}  ${clock}`,
    "",
    ...tableLines(standings, width, now),
    "",
    `  ${paint("▸", "cyan")} ${sentence}`,
    "",
    ...legendLines(width),
  ];
}

function linesOn(out: NodeJS.WriteStream): Screen {
  let saidAt = 0;
  return {
    show: (frame) => {
      if (frame.now - saidAt < PLAIN_EVERY_MS) return;
      saidAt = frame.now;
      out.write(`${plainLine(frame)}\n`);
    },
    leave: () => {},
  };
}

function plainLine({ standings, posted, startedAt, now }: Frame): string {
  const parts = standings.map((standing) => {
    const door = circuitSummaryOf(standing, now);
    const why = door.kind === "open" ? "" : ` (${circuitText(door, standing, now)})`;
    return `${standing.customer.fate.name} ${countOf(standing, "delivered")}/${standing.planned}${why}`;
  });
  return `${timeText(now - startedAt)}  ${posted} posted; delivered: ${parts.join(", ")}`;
}

function timeText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
