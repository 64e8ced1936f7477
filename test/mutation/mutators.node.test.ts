/** The mutants of a source, and that a file with its mutants in it behaves like the file without them. */
import { describe, expect, test } from "vitest";
import { explanations, unmatched } from "./explained.ts";
import { instrumented, marked } from "./instrument.ts";
import { sitesOf } from "./mutators.ts";
import { newMutants, planned } from "./plan.ts";
import { NONE, Rounds } from "./rounds.ts";
import { sqlMutations } from "./sql.ts";

/** The whole source with each mutant in turn. */
function mutantsOf(source: string): string[] {
  return sitesOf(source).flatMap(({ start, end, replacements }) =>
    replacements.map((text) => source.slice(0, start) + text + source.slice(end)),
  );
}

/** The text that is put into a template. */
const VALUE = "$".concat("{b}");

describe("a mutant of", () => {
  test.each<[string, string, string[]]>([
    ["a guard", "if (x) f();", ["if (true) f();", "if (false) f();", "if (x) "]],
    ["an inequality", "y = a < b;", ["", "y = a <= b;", "y = a >= b;"]],
    ["an equality", "y = a === 'b';", ["", "y = a !== 'b';"]],
    ["a conjunction", "y = a && b;", ["", "y = a;", "y = b;"]],
    ["a default", "y = a ?? b;", ["", "y = a;", "y = b;"]],
    ["a negation", "y = !a;", ["", "y = a;"]],
    ["arithmetic", "y = a + b * c;", ["", "y = a - b * c;", "y = a + b / c;"]],
    ["what is in parentheses", "y = (a + b) * c;", ["", "y = (a + b) / c;", "y = (a - b) * c;"]],
    ["a text that is put together", "y = a + 'b';", ["", 'y = a + "";']],
    ["a reason", "y = { reason: 'gone' };", ["", 'y = { reason: "" };']],
    ["a list", "y = [a];", ["", "y = [];"]],
    ["a filter", "y = a.filter(f);", ["", "y = a;"]],
    ["an awaited call", "await f(a);", [""]],
    ["a boundary in Drizzle", "y = lt(a, b);", ["", "y = __lte(a, b);"]],
    ["conditions in Drizzle", "y = and(a, b);", ["", "y = and(b);", "y = and(a);"]],
    ["a template with a tag", "y = String.raw`a`;", [""]],
    ["a message", "throw new Error('no' + a);", []],
    ["a type", "let y: 'a' | 'b';", []],
    ["a link of a chain", "y = a?.slice(1).b;", [""]],
    [
      "SQL",
      `y = \`SELECT 1 WHERE a = ${VALUE} AND c > 1\`;`,
      [
        "",
        `y = \`SELECT 1 WHERE (1 OR (a = ${VALUE})) AND c > 1\`;`,
        `y = \`SELECT 1 WHERE a = ${VALUE} AND (1 OR (c > 1))\`;`,
        `y = \`SELECT 1 WHERE a = ${VALUE} AND c >= 1\`;`,
      ],
    ],
  ])("%s changes one thing", (_, source, mutants) => {
    expect(mutantsOf(source)).toEqual(mutants);
  });
});

describe("a mutant of SQL", () => {
  test.each<[string, string, string[]]>([
    ["drops an alternative", "a = 1 OR b = 2", ["a = 1 OR (0 AND (b = 2))"]],
    [
      "keeps both ends of BETWEEN together",
      "WHERE a BETWEEN 1 AND 2 AND b",
      ["WHERE (1 OR (a BETWEEN 1 AND 2)) AND b", "WHERE a BETWEEN 1 AND 2 AND (1 OR (b))"],
    ],
    ["ends a condition with its parenthesis", "(SELECT 1 WHERE a) x", ["(SELECT 1 WHERE (1 OR (a))) x"]],
    [
      "drops a condition with parentheses whole",
      "AND (a OR b) LIMIT 1",
      ["AND (1 OR ((a OR b))) LIMIT 1", "AND (a OR (0 AND (b))) LIMIT 1"],
    ],
    ["clears and sets other bits", "a & ~b", ["a | ~b", "a & b"]],
    ["leaves upserts alone", "ON CONFLICT (id) DO NOTHING", []],
    ["turns a test for null around", "WHERE a IS NULL", ["WHERE (1 OR (a IS NULL))", "WHERE a IS NOT NULL"]],
  ])("%s", (_, text, mutants) => {
    expect(sqlMutations(text)).toEqual(mutants);
  });
});

describe("of the mutants, those are new", () => {
  /** Mutants as `file original replacement`, numbered in their order. */
  const numbered = (...texts: string[]) =>
    texts.map((text, i) => {
      const [file = "", original = "", replacement = ""] = text.split(" ");
      return { id: i + 1, file, line: i + 1, original, replacement };
    });

  test.each<[string, string[], string[], number[]]>([
    ["that no former source has", ["a.ts x y"], ["a.ts x z", "a.ts z y"], [1]],
    ["but none that was in another file", ["b.ts x y"], ["a.ts x y"], []],
    ["that are more than there were of the same", ["a.ts x y", "b.ts x y", "b.ts x y"], ["c.ts x y"], [2, 3]],
    ["and none if code is only left out", ["a.ts x y"], ["a.ts x y", "a.ts x y", "a.ts v w"], []],
  ])("%s", (_, now, former, expected) => {
    expect(newMutants(numbered(...now), numbered(...former)).map(({ id }) => id)).toEqual(expected);
  });
});

const plan = planned();

test("every explanation belongs to a mutant and says why it survives", () => {
  expect(unmatched(plan.mutants)).toEqual([]);
  expect(explanations.filter(({ reason }) => reason.length < 20)).toEqual([]);
});

test("a statement, an expression and a constant are put behind switches", () => {
  const source = "export const A = 1 < 2;\nif (a) f(A);\nelse g({ A });\n";
  const sites = sitesOf(source);
  const code = instrumented({ file: "src/x.ts", source, sites, firstId: 7 }, () => undefined);
  expect(code.split("\n").slice(1, -1)).toEqual([
    'export let /* const */ A = __s("src/x.ts#A", () => ((__m(7) ? (1 <= 2) : __m(8) ? (1 >= 2) : (1 < 2))), (__v) => { A = __v; });',
    'if ((__m(9) ? (true) : __m(10) ? (false) : (a))) { if (!__m(11)) f((__u("src/x.ts#A"), A)); }',
    'else { if (!__m(12)) g({ A: (__u("src/x.ts#A"), A) }); }',
  ]);
});

test("a test reports which constants it uses", () => {
  const source = "import { A } from '../../src/x.ts';\nconst b = 1;\ntest('t', () => expect(A).toBe(b));\n";
  const code = marked(source, (specifier) => specifier.replace("../../", ""));
  expect(code.split("\n").slice(1, -1)).toEqual([
    "import { A } from '../../src/x.ts';",
    "const b = 1;",
    `test('t', () => expect((__u("src/x.ts#A"), A)).toBe(b));`,
  ]);
});

test("a constant's use is marked if nothing else has its name", () => {
  const source =
    "const A = [];\nfunction f(A) { return A; }\nconst g = (b) => A[b];\nfor (const A of f()) g(A);\n";
  const code = instrumented({ file: "src/x.ts", source, sites: [], firstId: 1 }, () => undefined);
  expect(code).toContain("{ return A; }");
  expect(code).toContain('(b) => (__u("src/x.ts#A"), A)[b]');
  expect(code).toContain("g(A)");
});

describe("the rounds of a test", () => {
  /** The rounds as `mutant: whether the test fails`, until they are over. */
  function played(fails: (mutant: number, round: number) => boolean, queue = [5, 4]) {
    const rounds = new Rounds("id", "name", () => [...queue], true);
    const active: number[] = [];
    for (let goesOn = true; goesOn; ) {
      const mutant = rounds.next(() => true);
      active.push(mutant);
      goesOn = rounds.after(fails(mutant, active.length), new Set(queue));
    }
    return { active, ...rounds.report };
  }

  test("try every mutant, and run without one after each killed one", () => {
    expect(played((mutant) => mutant === 4)).toMatchObject({
      active: [NONE, NONE, 4, NONE, 5],
      state: "done",
      killed: [4],
      survived: [5],
    });
  });

  test("believe a failure after a survivor only if the test passes without a mutant", () => {
    expect(played((_, round) => round >= 4)).toMatchObject({
      active: [NONE, NONE, 4, 5, NONE],
      state: "afresh",
      killed: [],
      survived: [4],
      first: 5,
    });
  });

  test("start again when a killed mutant leaves something behind", () => {
    expect(played((_, round) => round >= 3)).toMatchObject({ state: "afresh", killed: [4], survived: [] });
  });

  test("try nothing with a test that fails without a mutant, or when it is repeated", () => {
    expect(played(() => true)).toMatchObject({ active: [NONE], state: "broken" });
    expect(played((_, round) => round === 2)).toMatchObject({ active: [NONE, NONE], state: "unrepeatable" });
  });
});
