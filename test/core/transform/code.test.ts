import { describe, expect, it } from "vitest";
import {
  codeFault,
  functionStopped,
  functionUnavailable,
  inOneLine,
  MOST_CODE_BYTES,
  outcomeIn,
  thrownOutcome,
} from "../../../src/core/transform/code.ts";

const NONE = "export default () => null;";

describe("a module", () => {
  it.each([
    NONE,
    "export default function (event) { return null; }",
    "const f = () => null;\nexport { f as default };",
    "// important things\nexport default () => null;",
    "export default async () => { importantThing(); return null; };",
    "const from = 'x';\nexport default () => import.meta;",
    "import.meta.url;\nexport default () => null;",
    "import .meta;\nexport default () => null;",
    "export const reads = ['*'] ; 'from'; export default () => null;",
    "not export { a } from 'b';\nexport default () => null;",
    "export { a }; fromage('b');\nexport default () => null;",
  ])("is taken: %s", (code) => {
    expect(codeFault(code)).toBeUndefined();
  });

  it.each([
    ["import x from 'y';", "imports a module"],
    ["  import 'y'", "imports a module"],
    ["import{a}from'b'", "imports a module"],
    ["const x = 1;\nimport('y')", "imports a module"],
    ["export * from 'y'", "imports a module"],
    [`  export {a} from "y"`, "imports a module"],
    ["export *from  'y'", "imports a module"],
    ["const x = 1;", "has no default export"],
    ["exports default", "has no default export"],
    ["xexport default", "has no default export"],
    ["export {f as defaults}", "has no default export"],
  ])("is not taken: %s %s", (code, fault) => {
    const whole = fault === "imports a module" ? `${code}\n${NONE}` : code;
    expect(codeFault(whole)).toBe(fault);
  });

  it("may have 65,536 bytes in UTF-8", () => {
    const most = `${NONE}//`.padEnd(MOST_CODE_BYTES, "a");
    expect(codeFault(most)).toBeUndefined();
    expect(codeFault(`${most}a`)).toBe("is larger than 65536 bytes");
    expect(codeFault(`${most.slice(0, -1)}é`)).toBe("is larger than 65536 bytes");
  });
});

const outcome = (answer: unknown) => outcomeIn(JSON.stringify(answer));
const made = (part: unknown) => outcome({ made: part });
const fault = (text: string, field = "code") => ({
  kind: "fault",
  fault: { field, fault: text },
  stopped: false,
});

describe("the answer of a function", () => {
  it("may have every part of a request", () => {
    const parts = { headers: { a: "b" }, method: "PUT", path: "/x" };
    expect(made({ body: { a: [1] }, content_type: "text/plain", ...parts })).toEqual({
      kind: "made",
      made: { body: '{"a":[1]}', contentType: "text/plain", ...parts },
    });
  });

  it("may leave out every part, and then has no headers", () => {
    expect(made({})).toStrictEqual({ kind: "made", made: { headers: {} } });
  });

  it("cancels the delivery by null", () => {
    expect(made(null)).toEqual({ kind: "made", made: null });
  });

  it.each([
    ["a JSON text", { body: "[1]" }, "[1]"],
    ["a text of another type", { body: "hello", content_type: "text/plain" }, "hello"],
    ["an empty text of another type", { body: "", content_type: "text/plain" }, ""],
    ["false", { body: false }, "false"],
  ])("has a body that is %s", (_, part, body) => {
    expect(made(part)).toMatchObject({ kind: "made", made: { body } });
  });

  it.each([
    ["is no JSON", "{", "returned no result"],
    ["is not an object", "[]", "returned no result"],
    ["has returned nothing", "{}", "returned nothing; null cancels the delivery"],
    ["has returned a list", '{"made":[]}', "returned neither an object nor null"],
    ["has returned a text", '{"made":"a"}', "returned neither an object nor null"],
  ])("is a fault if it %s", (_, text, expected) => {
    expect(outcomeIn(text)).toEqual(fault(expected));
  });

  it("is a fault if it has unknown parts, named by a hundred characters at most", () => {
    const expected = "expected body, content_type, headers, method, path only";
    expect(made({ body: 1, url: 2 })).toEqual(fault(`returned an object with url; ${expected}`));
    expect(made({ ["x".repeat(101)]: 2 })).toEqual(
      fault(`returned an object with ${"x".repeat(100)}; ${expected}`),
    );
  });

  it.each(["content_type", "method", "path"])("is a fault where %s is not a text", (field) => {
    expect(made({ [field]: 1 })).toEqual(fault("is not a text", field));
    expect(made({ [field]: null })).toEqual(fault("is not a text", field));
  });

  it("is a fault if headers are not an object of texts", () => {
    expect(made({ headers: [] })).toEqual(fault("are not an object", "headers"));
    expect(made({ headers: { a: "b", c: 1 } })).toEqual(fault("is not a text", "headers.c"));
    expect(made({ headers: { ["y".repeat(101)]: 1 } })).toEqual(
      fault("is not a text", `headers.${"y".repeat(100)}`),
    );
  });

  it("is a fault if the body is null, or a text that is not JSON although JSON is its type", () => {
    expect(made({ body: null })).toEqual(
      fault("is null; leave it out to send the event, or return null to cancel", "body"),
    );
    const noJson = fault("is a text that is not JSON; set content_type, or return the value itself", "body");
    expect(made({ body: "hello" })).toEqual(noJson);
    expect(made({ body: "", content_type: "application/json" })).toEqual(noJson);
  });

  it("has 900,000 characters at most, as it is stored", () => {
    const around = JSON.stringify({ body: "", contentType: "text/plain", headers: {} }).length;
    const result = (length: number) =>
      made({ body: "a".repeat(length - around), content_type: "text/plain" });
    expect(result(900_000)).toMatchObject({ kind: "made" });
    expect(result(900_001)).toEqual(fault("returns a result of more than 900000 characters"));
  });
});

describe("an error of a function", () => {
  it("is reported with its place in the code", () => {
    const stack = "Error: no\n    at other.js:1:2\n    at f (function.js:12:34)\n    at function.js:5:6";
    expect(outcome({ thrown: { message: "no", stack } })).toEqual({
      kind: "fault",
      fault: { field: "code", fault: "threw no", line: 12, column: 34 },
      stopped: false,
    });
  });

  it.each([
    undefined,
    "at functionxjs:1:2",
    "at function.js:1",
    "at function.js:x:2",
    7,
  ])("has no place if its stack has none: %s", (stack) => {
    expect(thrownOutcome({ message: "no", stack })).toEqual(fault("threw no"));
  });

  it("without a message is reported as such", () => {
    expect(thrownOutcome({ message: 5 })).toEqual(fault("threw an error without a message"));
  });

  it("takes precedence over a returned value, if it is an object", () => {
    expect(outcome({ thrown: { message: "no" }, made: {} })).toEqual(fault("threw no"));
    expect(outcome({ thrown: "no", made: {} })).toMatchObject({ kind: "made" });
  });

  it("is one line of 300 characters", () => {
    expect(inOneLine(" a\n\r\tb\u0000c ")).toBe("a b c");
    expect(inOneLine("a".repeat(300))).toBe("a".repeat(300));
    expect(inOneLine("a".repeat(301))).toBe(`${"a".repeat(300)}…`);
  });
});

it("a call that was ended from outside may succeed later, and a call that was not made says so", () => {
  expect(functionStopped("took too long")).toEqual({ ...fault("took too long"), stopped: true });
  expect(functionUnavailable("away")).toEqual({
    kind: "unavailable",
    fault: { field: "code", fault: "away" },
  });
});
