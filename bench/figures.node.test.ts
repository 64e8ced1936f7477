/** The pages show what the benches have found, and say nothing else of it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { projectRoot } from "../tools/wrangler.ts";
import { falseClaims } from "./figures/claims.ts";
import { figures } from "./figures/figures.ts";
import { pagesWithFigures, withFigures } from "./figures/pages.ts";

const textOf = (page: string) => readFileSync(join(projectRoot, page), "utf8");

describe("the figures on the pages", () => {
  test.each(pagesWithFigures())("$page shows those that the benches have saved", ({ page, text }) => {
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

  test("agree with what the pages say of them in words", () => {
    expect(falseClaims(textOf)).toEqual([]);
  });
});

describe("writing figures", () => {
  test("replaces what stands between the comments, in a line and around lines of their own", () => {
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
    ["<!-- figure:idle-dollars -->1", "does not end, or begin"],
    ["costs\n<!-- figure:idle-dollars -->1<!-- /figure --> dollars", "begins a line of prose"],
    ["1<!-- /figure -->", "does not end, or begin"],
    [
      "<!-- figure:idle-dollars --> <!-- figure:idle-dollars -->1<!-- /figure --><!-- /figure -->",
      "does not end, or begin",
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
