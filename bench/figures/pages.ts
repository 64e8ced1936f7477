/**
 * A page names a figure between two comments, `<!-- figure:cost -->…<!-- /figure -->`: within a line of prose, or on
 * lines of their own around a table. `npm run figures` writes the text between them.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../../tools/wrangler.ts";
import { figures } from "./figures.ts";

const MARKED = /<!-- figure:([\w-]+) -->([\s\S]*?)<!-- \/figure -->/g;
const MARKS = /<!-- \/?figure\b.*?-->/g;

export type Page = Readonly<{ page: string; text: string }>;

export function pagesWithFigures(): Page[] {
  const all = ["README.md", ...globSync("docs/**/*.md", { cwd: projectRoot })].toSorted();
  const read = (page: string) => ({ page, text: readFileSync(join(projectRoot, page), "utf8") });
  return all.map(read).filter(({ text }) => text.includes("<!-- figure:"));
}

/**
 * @throws for an unknown name, for a comment without its counterpart, and for a figure at the beginning of a line of
 *   prose, where Markdown would end the paragraph
 */
export function withFigures(page: string, text: string): string {
  const marks = text.match(MARKS)?.length ?? 0;
  const marked = text.match(MARKED) ?? [];
  const isNested = marked.some((one) => (one.match(MARKS)?.length ?? 0) !== 2);
  if (isNested || marks !== marked.length * 2)
    throw new Error(`${page} has a figure comment without its counterpart`);
  if (/^ *<!-- figure:[\w-]+ -->./m.test(text))
    throw new Error(`${page} has a figure that begins a line of prose`);
  return text.replaceAll(MARKED, (_, name: string, shown: string) => {
    const figure = figures[name];
    if (figure === undefined) throw new Error(`${page} names a figure that does not exist: ${name}`);
    const edge = shown.startsWith("\n") ? "\n" : "";
    return `<!-- figure:${name} -->${edge}${figure()}${edge}<!-- /figure -->`;
  });
}
