/** `npm run release`, a step of the workflow of a release: writes what GitHub and npm show of a version. */
import { readFileSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import { runScript, textFlag, UsageError } from "./flags.ts";
import { projectRoot } from "./wrangler.ts";

const HELP = `npm run release -- --tag TAG --repository OWNER/NAME    Checks that the tag is of this version. Writes the version's section
                             of CHANGELOG.md into notes.md, and makes client/dist ready to be published.

  --tag TAG                v and the version
  --repository OWNER/NAME  the repository on GitHub that the tag is in
  -h, --help               show this help`;

type Files = Readonly<Record<string, string>>;

/**
 * The files to write, by their paths.
 * @param files the present ones: `package.json`, `CHANGELOG.md`, and the client's as `npm run build:client` made them
 * @throws UsageError when the tag or the changelog is not of the version
 */
export function releaseFiles(files: Files, tag: string, repository: string): Files {
  const { version } = JSON.parse(files["package.json"] ?? "");
  if (tag !== `v${version}`)
    throw new UsageError(
      `--tag is ${JSON.stringify(tag)}; expected v${version}, the version of package.json`,
    );
  const notes = sectionOf(files["CHANGELOG.md"] ?? "", version);
  if (notes === "") throw new UsageError(`CHANGELOG.md has nothing under [${version}]`);
  const address = `https://github.com/${repository}`;
  const linked = (text: string, folder: string) => withWholeLinks(text, folder, `${address}/blob/${tag}`);
  const manifest = JSON.parse(files["client/dist/package.json"] ?? "");
  // npm accepts a provenance only from the repository that the package names.
  const origin = { type: "git", url: `git+${address}.git`, directory: "client" };
  return {
    "notes.md": unwrapped(linked(notes, "")),
    "client/dist/README.md": linked(files["client/dist/README.md"] ?? "", "client"),
    "client/dist/package.json": `${JSON.stringify({ ...manifest, repository: origin }, null, 2)}\n`,
  };
}

function sectionOf(changelog: string, version: string): string {
  const sections = changelog.split(/^(?=## )/m);
  const own = sections.find((section) => section.startsWith(`## [${version}]`)) ?? "";
  return own.replace(/^.*\n/, "").trim();
}

/** Neither GitHub's page of a release nor npm's of a package finds the files that relative links lead to. */
function withWholeLinks(markdown: string, folder: string, root: string): string {
  return markdown.replaceAll(
    /\]\((?![a-z]+:|#)([^)\s]+)\)/g,
    (_, path: string) => `](${root}/${posix.join(folder, path)})`,
  );
}

/** One line for each paragraph and list item: in the text of a release, GitHub shows each end of a line as a break. */
function unwrapped(markdown: string): string {
  const lines: string[] = [];
  let isCode = false;
  for (const line of markdown.split("\n")) {
    const isFence = /^\s*```/.test(line);
    const beginsAnew = /^\s*($|#|\||>|[-*] |\d+\. )/.test(line);
    const before = lines.at(-1) ?? "";
    const ends = before === "" || /^\s*(#|\||```)/.test(before);
    if (isCode || isFence || beginsAnew || ends) lines.push(line);
    else lines[lines.length - 1] = `${before} ${line.trim()}`;
    if (isFence) isCode = !isCode;
  }
  return `${lines.join("\n")}\n`;
}

if (import.meta.main)
  process.exitCode = await runScript(HELP, async ({ values }) => {
    const names = ["package.json", "CHANGELOG.md", "client/dist/README.md", "client/dist/package.json"];
    const files = Object.fromEntries(
      names.map((name) => [name, readFileSync(join(projectRoot, name), "utf8")]),
    );
    const [tag, repository] = [textFlag(values, "tag"), textFlag(values, "repository")];
    if (!tag || !repository) throw new UsageError("--tag and --repository are needed");
    for (const [name, text] of Object.entries(releaseFiles(files, tag, repository)))
      writeFileSync(join(projectRoot, name), text);
    return 0;
  });
