/** Prints the output of `wrangler dev` for `npm run dev`: after the address, and without lines of no use. */
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";

/** A table of every binding and variable, which is printed at each reload and ends with an empty line. */
const table = /^Your Worker has access to the following bindings:/;

/** Lines that say nothing new, or that the cron is not triggered automatically: this script triggers it. */
const noise = [
  /^Using secrets defined in /,
  /^⎔ (Starting|Reloading) local server/,
  /^⎔ Connection status updated/,
  /^\[wrangler:info\] Ready on /,
  /Scheduled Workers are not automatically triggered/,
  /^ +To manually trigger a scheduled event, run:/,
  /^ +curl ".*\/cdn-cgi\/local\/scheduled"/,
  /#test-cron-triggers-locally$/,
];

/**
 * Returns a function that decides for each line of a stream, in order, whether to print it. Empty lines belong to the
 * line before.
 */
export function lineFilter(): (line: string) => boolean {
  let isPrinted = true;
  let isInTable = false;
  return (line) => {
    const text = stripVTControlCharacters(line).trimEnd();
    isInTable = text !== "" && (isInTable || table.test(text));
    if (text !== "") isPrinted = !isInTable && !noise.some((one) => one.test(text));
    return isPrinted;
  };
}

/**
 * Holds the lines of a stream until they are released, and passes on what follows.
 * @returns the release: it prints what was held
 */
export function heldOutput(input: Readable, output: Pick<Writable, "write">): () => void {
  const isPrinted = lineFilter();
  let held: string | undefined = "";
  createInterface({ input }).on("line", (line) => {
    if (!isPrinted(line)) return;
    if (held === undefined) output.write(`${line}\n`);
    else held += `${line}\n`;
  });
  return () => {
    if (held) output.write(held);
    held = undefined;
  };
}
