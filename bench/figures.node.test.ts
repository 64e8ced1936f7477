/** Pages show the saved figures of the benches, and claim nothing that contradicts them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { projectRoot } from "../tools/wrangler.ts";
import { falseClaims } from "./figures/claims.ts";
import { figures } from "./figures/figures.ts";
import { pagesWithFigures, withFigures } from "./figures/pages.ts";

const textOf = (page: string) => readFileSync(join(projectRoot, page), "utf8");

describe("the figures on the pages", () => {
  test.each(pagesWithFigures())("are the saved ones in $page", ({ page, text }) => {
    expect(withFigures(page, text), "Run `npm run figures`").toBe(text);
  });

  test("are in the README and in docs/benchmarks.md", () => {
    expect(pagesWithFigures().map(({ page }) => page)).toEqual(
      expect.arrayContaining(["README.md", "docs/benchmarks.md"]),
    );
  });

  test("are each named by a page", () => {
    const named = new Set(
      pagesWithFigures().flatMap(({ text }) =>
        [...text.matchAll(/<!-- figure:([\w-]+) -->/g)].map(([, name]) => name),
      ),
    );
    expect(Object.keys(figures).filter((name) => !named.has(name))).toEqual([]);
  });

  test("agree with the claims that pages make in words", () => {
    expect(falseClaims(textOf)).toEqual([]);
  });
});

describe("writing figures", () => {
  test("replaces the text between the comments, within a line and on lines of its own", () => {
    const written = withFigures(
      "page.md",
      "costs <!-- figure:idle-dollars -->99<!-- /figure --> dollars\n<!-- figure:cost-readme -->\nold\n<!-- /figure -->\n",
    );
    expect(written).toBe(
      `costs <!-- figure:idle-dollars -->${figures["idle-dollars"]?.()}<!-- /figure --> dollars\n<!-- figure:cost-readme -->\n${figures["cost-readme"]?.()}\n<!-- /figure -->\n`,
    );
    expect(withFigures("page.md", written)).toBe(written);
  });

  test.each([
    ["costs <!-- figure:no-such -->1<!-- /figure -->", "names a figure that does not exist: no-such"],
    ["<!-- figure:idle-dollars -->1", "without its counterpart"],
    ["costs\n<!-- figure:idle-dollars -->1<!-- /figure --> dollars", "begins a line of prose"],
    ["1<!-- /figure -->", "without its counterpart"],
    [
      "<!-- figure:idle-dollars --> <!-- figure:idle-dollars -->1<!-- /figure --><!-- /figure -->",
      "without its counterpart",
    ],
  ])("refuses %j", (text, fault) => {
    expect(() => withFigures("page.md", text)).toThrow(fault);
  });

  test("finds a claim that a page no longer makes", () => {
    expect(falseClaims(() => "nothing")).toContain(
      "docs/benchmarks.md no longer says “BullMQ wins at every rate”.",
    );
  });
});
