/** The output of `wrangler dev` as `npm run dev` prints it: after the address, and without what it says twice. */
import type { Readable } from "node:stream";

const BINDINGS = "Your Worker has access to the following bindings:";

/** The text without repeated tables of bindings: wrangler prints one before and one after it starts. */
export function withoutRepeatedBindings(text: string): string {
  const [before = "", ...tables] = text.split(`${BINDINGS}\n`);
  const others = tables.map((table, i) => {
    const end = table.indexOf("\n\n");
    return i === 0 || end < 0 ? table : table.slice(end + 2);
  });
  const [first, ...rest] = others;
  return first === undefined ? before : [before, `${BINDINGS}\n`, first, ...rest].join("");
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
    if (held !== undefined) print(withoutRepeatedBindings(held));
    held = undefined;
  };
}
