/**
 * `npm run figures`: writes the saved figures of the benches into README.md and docs/, wherever a page names one, and
 * draws the picture of growth. With `--check` it writes nothing, and exits 1 when a page shows other figures or makes a
 * claim that no longer holds.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../tools/wrangler.ts";
import { falseClaims } from "./figures/claims.ts";
import { pagesWithFigures, withFigures } from "./figures/pages.ts";
import { growthPicture } from "./growth/picture.ts";
import { saved } from "./results.ts";

const GROWTH = ".github/pictures/growth.svg";

const isCheck = process.argv.includes("--check");
const shown = [
  ...pagesWithFigures().map(({ page, text }) => ({ page, text, expected: withFigures(page, text) })),
  { page: GROWTH, text: textOf(GROWTH), expected: growthPicture(saved("dimensions")) },
];

const stale = shown.filter(({ text, expected }) => text !== expected);
for (const { page, expected } of stale) {
  console.log(isCheck ? `${page} does not show the figures of bench/results.` : `Wrote ${page}.`);
  if (!isCheck) writeFileSync(join(projectRoot, page), expected);
}

const faults = falseClaims(textOf);
for (const fault of faults) console.error(fault);
if (isCheck && stale.length > 0) console.error("Run `npm run figures`.");
process.exitCode = faults.length > 0 || (isCheck && stale.length > 0) ? 1 : 0;

function textOf(page: string): string {
  return readFileSync(join(projectRoot, page), "utf8");
}
