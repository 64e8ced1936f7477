/** `npm run dev` prints what wrangler says after the address, without the tables of bindings. */
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { heldOutput, withoutBindings } from "../../tools/dev-output.ts";

const TABLE = "Your Worker has access to the following bindings:\nBinding   Resource\nenv.DB    D1\n\n";

test.each([
  ["", ""],
  ["no table\n", "no table\n"],
  [`a\n${TABLE}b\n`, "a\nb\n"],
  [`a\n${TABLE}b\n\nc\n${TABLE}d\n`, "a\nb\n\nc\nd\n"],
  [`${TABLE}${TABLE}`, ""],
])("of %j is printed %j", (given, expected) => {
  expect(withoutBindings(given)).toBe(expected);
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
  expect(printed).toBe("ready\nrequest\n");
});
