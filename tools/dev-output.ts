/** The output of `wrangler dev` as `npm run dev` prints it: after the address, and without the tables of bindings. */
import type { Readable } from "node:stream";

const BINDINGS = "Your Worker has access to the following bindings:";

/** The text without the tables of bindings, which wrangler prints before and after it starts. */
export function withoutBindings(text: string): string {
  const [before = "", ...tables] = text.split(`${BINDINGS}\n`);
  return [before, ...tables.map((table) => table.split("\n\n").slice(1).join("\n\n"))].join("");
}

/**
 * Holds what a stream has until it is released, and passes on what follows.
 * @returns the release: it prints what was held
 */
export function heldOutput(stream: Readable, print: (text: string) => void): () => void {
  let held: string | undefined = "";
  stream.setEncoding("utf8").on("data", (text: string) => {
    if (held === undefined) print(text);
    else held += text;
  });
  return () => {
    if (held !== undefined) print(withoutBindings(held));
    held = undefined;
  };
}
