/**
 * The files of the repository that are pages of the site: where each is, and the sidebar. The site has README.md,
 * CHANGELOG.md and docs/, and every other file that these link to, Markdown or source, so that no link leads out of it.
 */
import { existsSync, globSync, readFileSync } from "node:fs";
import { extname, join, posix } from "node:path";

export const ROOT = join(import.meta.dirname, "..");

/** Where the pages are that are not in docs/, and would have a worse address by rule. */
const addresses: Readonly<Record<string, string>> = {
  "README.md": "index.md",
  "CHANGELOG.md": "changelog.md",
  ".github/CONTRIBUTING.md": "contributing.md",
  ".github/SECURITY.md": "security.md",
  "bench/storm/figures.md": "storm-figures.md",
  "bench/results/soak.md": "soak-report.md",
};

const pictures = [".png", ".svg"];

/** The Markdown that VitePress finds by itself. */
const ownPages = ["README.md", "CHANGELOG.md", ...globSync("docs/**/*.md", { cwd: ROOT }).sort()];

/** The others, which the page of `other/` makes. */
export const otherPages = linkedFrom(ownPages).filter((file) => !ownPages.includes(file));

const fileAt = new Map([...ownPages, ...otherPages].map((file) => [addressOf(file), file]));

/** The path of a file's page within the site, which ends with `.md` as VitePress wants it. */
export function addressOf(file: string): string {
  const known = addresses[file];
  if (known !== undefined) return known;
  if (extname(file) !== ".md") return `source/${file.replaceAll(/[^\w/]/g, "-")}.md`;
  return file.replace(/^docs\//, "").replace(/README\.md$/, "index.md");
}

/** @param address the path of a page, or of a file that VitePress finds by itself */
export function fileOf(address: string): string {
  const page = address.replace(/^site\/other\//, "");
  return fileAt.get(page) ?? page;
}

/** The link of a page to a file, as a link of the site; undefined if it does not lead to another file. */
export function linkWithin(from: string, link: string): string | undefined {
  if (/^(\w+:|#|\/)/.test(link)) return undefined;
  const [path = "", anchor] = link.split("#");
  const page = addressOf(posix.join(posix.dirname(from), path)).replace(/(^|\/)index\.md$/, "$1");
  return `/${page.replace(/\.md$/, "")}${anchor === undefined ? "" : `#${anchor}`}`;
}

/** The pages with their Markdown, whose links lead to the Markdown of other pages: for programs, and for agents. */
export function markdownFiles(): Readonly<Record<string, string>> {
  const pages = [...fileAt].map(([address, file]) => [address, withinMarkdown(address, file)]);
  return Object.fromEntries(pages);
}

function withinMarkdown(address: string, file: string): string {
  const text = contentOf(file);
  if (extname(file) !== ".md") return text;
  return text.replaceAll(/\]\(([^)\s]+)\)/g, (all, link: string) => {
    const [path = "", anchor] = link.split("#");
    const other = posix.join(posix.dirname(file), path);
    if (/^\w+:/.test(link) || path === "" || !fileAt.has(addressOf(other))) return all;
    const to = posix.relative(posix.dirname(address), addressOf(other));
    return `](${to}${anchor === undefined ? "" : `#${anchor}`})`;
  });
}

/** `llms.txt` of the site: the sidebar, each entry with its Markdown (https://llmstxt.org). */
export function llmsIndex(description: string): string {
  const lines = sidebar().flatMap(({ text, items }) => [
    `\n## ${text}\n`,
    ...items.map(({ text, link }) => `- [${text}](.${link.replace(/\/$/, "/index")}.md)`),
  ]);
  return [`# Breakwater\n\n> ${description}\n\nThe API: [openapi.md](./openapi.md).`, ...lines].join("\n");
}

/** An anchor as GitHub makes it of a heading, so that links to headings lead to the same place in both. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

/** The Markdown of a page: the file's own, or its source in a fence. */
export function contentOf(file: string): string {
  const text = readFileSync(join(ROOT, file), "utf8");
  if (extname(file) === ".md") return text;
  return `# ${posix.basename(file)}\n\n\`${file}\`\n\n\`\`\`\`${languageOf(file)}\n${text}\n\`\`\`\`\n`;
}

function languageOf(file: string): string {
  const extension = extname(file).slice(1);
  return extension === "mjs" ? "js" : extension;
}

/** The sidebar: README's "Read on", with what a folder's own index lists below its entry. */
export function sidebar() {
  const [, table = ""] = textOf("README.md").split("## Read on");
  const rows = [...table.matchAll(/^\| (\w[^|]*) \| (.*) \|$/gm)];
  return rows.map(([, text = "", cell = ""]) => ({
    text,
    items: linksIn(cell, "README.md").map((file) => {
      const items = posix.basename(file) === "README.md" ? linksIn(textOf(file), file).map(entry) : [];
      return items.length > 0 ? { ...entry(file), items, collapsed: true } : entry(file);
    }),
  }));
}

function entry(file: string) {
  const [, title = file] = textOf(file).match(/^# (.+)$/m) ?? [];
  return { text: title, link: linkWithin("", file) ?? "/" };
}

/** The files that pages link to, pages of other folders and their links included. */
function linkedFrom(pages: readonly string[]): string[] {
  const found = new Set(pages);
  for (const page of found) {
    if (extname(page) !== ".md") continue;
    for (const file of linksIn(textOf(page), page)) found.add(file);
  }
  return [...found];
}

/** The files that a text links to, in its order; none twice. */
function linksIn(text: string, from: string): string[] {
  const links = text.replaceAll(/^```[\s\S]*?^```/gm, "").matchAll(/\]\(([^)\s#]+)[^)\s]*\)/g);
  const files = [...links]
    .filter(([, link = ""]) => !/^\w+:/.test(link))
    .map(([, link = ""]) => posix.join(posix.dirname(from), link));
  return [...new Set(files)].filter(
    (file) => !pictures.includes(extname(file)) && existsSync(join(ROOT, file)),
  );
}

function textOf(file: string): string {
  return readFileSync(join(ROOT, file), "utf8");
}
