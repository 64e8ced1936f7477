/** An operational event in words: title, subject, facts, and which events are about one problem. */
import { describe, expect, test } from "vitest";
import { messageAbout } from "../../src/core/operational-message.ts";

const types = [
  "destination.circuit_opened",
  "destination.circuit_closed",
  "destination.paused",
  "destination.resumed",
  "destination.storm_detected",
  "destination.recovered",
  "delivery.dead",
  "sweep.stalled",
  "threshold.crossed",
];

test("each operational event has a title and a severity", () => {
  const messages = types.map((type) => messageAbout(type, {}));
  for (const { title } of messages) expect(title).toMatch(/^[A-Z][a-z ]+$/);
  expect(new Set(messages.map(({ title }) => title)).size).toBe(types.length);
  for (const { severity } of messages) expect(["critical", "error", "warning", "info"]).toContain(severity);
});

test("an event that ends a problem is not severe, and one that begins a problem is", () => {
  for (const type of types) {
    const { isEnd, severity } = messageAbout(type, {});
    expect(severity === "info", type).toBe(isEnd);
  }
});

test.each([
  "shop.closed",
  "constructor",
  "toString",
  "__proto__",
])("an event of the operator's own, %s, is called by its type", (type) => {
  expect(messageAbout(type, { shop: 7 })).toEqual({
    title: type,
    severity: "info",
    subject: "",
    facts: [["shop", "7"]],
    problem: type,
    isEnd: false,
  });
});

describe("the subject of an event is", () => {
  test.each([
    ["a threshold", { threshold: "retry_rate", destination_id: "dst_1", host: "a.example" }, "retry_rate"],
    ["a destination with a host", { destination_id: "dst_1", host: "a.example" }, "a.example (dst_1)"],
    ["a destination without one", { destination_id: "dst_1", host: null }, "dst_1"],
    ["nothing", {}, ""],
  ])("%s", (_, data, subject) => {
    expect(messageAbout("threshold.crossed", data).subject).toBe(subject);
  });
});

describe("the problem of an event", () => {
  test.each([
    ["destination.paused", { destination_id: "dst_1", threshold: "a" }, "destination.paused dst_1"],
    ["destination.resumed", { destination_id: "dst_1" }, "destination.paused dst_1"],
    ["threshold.crossed", { threshold: "retry_rate" }, "threshold.crossed retry_rate"],
    ["sweep.stalled", {}, "sweep.stalled"],
  ])("%s with %j is %s", (type, data, problem) => {
    expect(messageAbout(type, data).problem).toBe(problem);
  });
});

describe("the facts of an event", () => {
  test.each<[unknown, [string, string][]]>([
    [
      { list: ["a", { b: 1 }, null, 3], nested: { deep: { er: 1 }, none: null } },
      [
        ["list", 'a, {"b":1}, null, 3'],
        ["nested.deep.er", "1"],
        ["nested.none", "null"],
      ],
    ],
    [["a", "b"], [["data", "a, b"]]],
    ["text", [["data", "text"]]],
    [null, [["data", "null"]]],
    [{ "two\nlines": "a\r\nb\u2028c" }, [["two lines", "a b c"]]],
    [{ link: "https://a.example/", more: { link: "x" } }, [["more.link", "x"]]],
  ])("%j are texts of one line", (data, facts) => {
    expect(messageAbout("shop.closed", data).facts).toEqual(facts);
  });
});

test("a link is shown only when it is an https one", () => {
  expect(messageAbout("shop.closed", { link: "https://a.example/" })).toMatchObject({
    link: "https://a.example/",
  });
  for (const link of ["javascript:alert(1)", "http://a.example/", ["https://a.example/"], null])
    expect(messageAbout("shop.closed", { link })).not.toHaveProperty("link");
});
