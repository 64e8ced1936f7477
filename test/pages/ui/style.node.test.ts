import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { accentColours, contrastOf } from "../../../src/core/portal-branding.ts";
import { destinationKinds } from "../../../src/delivery/kinds/registry.ts";
import { authInputs } from "../../../src/features/destinations/inputs.ts";
import { charts, forms, page, parts, tokens } from "../../../src/pages/ui/style.ts";

const themes = ["light", "dark"] as const;
type Theme = (typeof themes)[number];

/** The value of a token in a theme. */
function token(name: string, theme: Theme): string {
  const [, light = "", dark = ""] =
    new RegExp(`--${name}: light-dark\\((#[0-9a-f]{6}), (#[0-9a-f]{6})\\)`).exec(tokens) ?? [];
  return theme === "light" ? light : dark;
}

/** The tokens that a rule uses. */
function tokensIn(selector: string): string[] {
  const rules = `${page}${parts}${charts}`.split("}").filter((rule) => rule.includes(selector));
  return rules.flatMap((rule) => [...rule.matchAll(/var\(--([a-z-]+)\)/g)].map(([, name = ""]) => name));
}

const STATES = [
  ".tone-good",
  ".tone-busy",
  ".tone-warn",
  ".tone-bad",
  ".succeeded",
  ".failed",
  ".timeline .",
];

describe("colours of state", () => {
  test.each(STATES)("of %s never come from the accent, which a brand replaces", (selector) => {
    const used = tokensIn(selector);
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((name) => name.includes("accent"))).toEqual([]);
  });

  test.each(themes)("are readable as text on paper, on raised paper and on their own wash: %s", (theme) => {
    for (const name of ["good", "warn", "bad"])
      for (const behind of ["paper", "raised", `${name}-wash`])
        expect(
          contrastOf(token(name, theme), token(behind, theme)),
          `${name} on ${behind}`,
        ).toBeGreaterThanOrEqual(4.5);
  });

  test.each(themes)("distinguish successes from failures and from the paper in charts: %s", (theme) => {
    for (const behind of ["paper", "raised"])
      for (const name of ["succeeded", "failed"])
        expect(contrastOf(token(name, theme), token(behind, theme)), name).toBeGreaterThanOrEqual(3);
    expect(contrastOf(token("succeeded", theme), token("failed", theme))).toBeGreaterThanOrEqual(3);
  });
});

describe("an accent, whatever it is,", () => {
  test("is readable on the paper, under its own text and on its own wash", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffffff }), (colour) => {
        const colours = accentColours(`#${colour.toString(16).padStart(6, "0")}`);
        for (const theme of themes) {
          const { accent, onAccent, wash } = colours[theme];
          for (const behind of [token("paper", theme), token("raised", theme), onAccent, wash])
            expect(contrastOf(accent, behind)).toBeGreaterThanOrEqual(4.5);
        }
      }),
    );
  });
});

test.each([
  ["kind", destinationKinds],
  ["auth_kind", authInputs.map(([kind]) => kind)],
])("every choice of %s hides the inputs of the others", (select, choices) => {
  const hiding = choices.filter((choice) =>
    new RegExp(
      `"${select}"\\] option\\[value="${choice}"\\]:checked\\) .*:not\\(.for-${choice}\\) \\{ display: none`,
    ).test(forms),
  );
  expect(hiding).toEqual(choices);
});
