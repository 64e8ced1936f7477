/**
 * `npm run figures`: writes what the benches have saved into README.md and docs/, wherever a page names a figure, and draws
 * the picture of growth. With `--check` it writes nothing, and exits 1 when a page shows something else or claims what no longer holds.
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
  ...pagesWithFigures().map(({ page, text }) => ({ page, text, right: withFigures(page, text) })),
  { page: GROWTH, text: textOf(GROWTH), right: growthPicture(saved("dimensions")) },
];

const stale = shown.filter(({ text, right }) => right !== text);
for (const { page, right } of stale) {
  console.log(isCheck ? `${page} shows other figures than bench/results.` : `Wrote ${page}.`);
  if (!isCheck) writeFileSync(join(projectRoot, page), right);
}

const wrong = falseClaims(textOf);
for (const fault of wrong) console.error(fault);
if (isCheck && stale.length > 0) console.error("Run `npm run figures`.");
process.exitCode = wrong.length > 0 || (isCheck && stale.length > 0) ? 1 : 0;

function textOf(page: string): string {
  return readFileSync(join(projectRoot, page), "utf8");
}
