import { expect, test } from "vitest";
import { svixEventOf, svixOperational } from "../../src/core/operational-message.ts";

const [ours = ""] = Object.values(svixOperational);

test.each([["a text"], [7], [null], [undefined]])("content that is no object stays as it is: %j", (data) => {
  expect(svixEventOf(ours, data)).toEqual({ type: ours, data });
});
