/** `npm run dev` prints what wrangler says after the address, and the table of bindings once. */
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { heldOutput, withoutRepeatedBindings } from "../../tools/dev-output.ts";

const TABLE = "Your Worker has access to the following bindings:\nBinding   Resource\nenv.DB    D1\n\n";

test.each([
  ["", ""],
  ["no table\n", "no table\n"],
  [`a\n${TABLE}b\n`, `a\n${TABLE}b\n`],
  [`a\n${TABLE}b\n${TABLE}c\n`, `a\n${TABLE}b\nc\n`],
  [`${TABLE}${TABLE}${TABLE}`, TABLE],
])("of %j is printed %j", (given, expected) => {
  expect(withoutRepeatedBindings(given)).toBe(expected);
});

test("output is held until it is released, and passed on at once afterwards", () => {
  const stream = new PassThrough();
  let printed = "";
  const release = heldOutput(stream, (text) => {
    printed += text;
  });
  stream.emit("data", `${TABLE}ready\n${TABLE}`);
  expect(printed).toBe("");
  release();
  release();
  stream.emit("data", "request\n");
  expect(printed).toBe(`${TABLE}ready\nrequest\n`);
});
