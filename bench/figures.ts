/**
 * `npm run figures`: writes what the benches have saved into README.md and docs/, wherever a page names a figure. With
 * `--check` it writes nothing, and exits 1 when a page shows something else or claims what no longer holds.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../tools/wrangler.ts";
import { falseClaims } from "./figures/claims.ts";
import { pagesWithFigures, withFigures } from "./figures/pages.ts";

const isCheck = process.argv.includes("--check");
const pages = pagesWithFigures();

const stale = pages.filter(({ text, page }) => withFigures(page, text) !== text);
for (const { page, text } of stale) {
  console.log(isCheck ? `${page} shows other figures than bench/results.` : `Wrote ${page}.`);
  if (!isCheck) writeFileSync(join(projectRoot, page), withFigures(page, text));
}

const wrong = falseClaims((page) => readFileSync(join(projectRoot, page), "utf8"));
for (const fault of wrong) console.error(fault);
if (isCheck && stale.length > 0) console.error("Run `npm run figures`.");
process.exitCode = wrong.length > 0 || (isCheck && stale.length > 0) ? 1 : 0;
