/**
 * Names, held by machine: an exported name stands in one file, and retired words stand nowhere. The lists of what is left
 * may only shrink: a test fails when a name on a list is no longer at fault.
 */
import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const ROOT = new URL("..", import.meta.url).pathname;

/** Names that stand in several files for a reason. */
const SHARED: Readonly<Record<string, string>> = {
  DestinationGate: "tools/strict wraps the class, and wrangler.toml names it",
  ReceiverGroup: "tools/strict wraps the class, and wrangler.toml names it",
  Intake: "tools/strict wraps the class, and wrangler.toml names it",
  Events: "tools/strict wraps the class, and other Workers name it",
};

/** Files that others import: their names are those of the API's documentation. */
const PUBLISHED = /^(src\/bindings\/client\.ts|client\/src\/)/;

/** Each beside the word to use instead. */
const RETIRED: Readonly<Record<string, string>> = {
  "verdicts?": "result",
  "trials?": "dry run",
  told: "reported",
  "tells?": "reports",
  lately: "recently",
  doubtful: "throttled",
  "reseal\\w*": "rotate",
  nearlyOver: "readyForSuccessor",
  goOnWith: "continueWith",
  turnDestination: "setDestinationStatus",
  letWait: "markWaiting",
};

/** Files that still have a retired word. */
const WORDY: readonly string[] = [
  "src/core/reasons.ts",
  "src/features/replays/pace.ts",
  "src/features/replays/schema.ts",
  "src/http/docs/remedies.ts",
  "src/pages/dashboard/view.tsx",
  "src/pages/portal/texts/de.ts",
  "src/pages/portal/texts/en.ts",
];

const GENERATED = /^(src\/env\.d\.ts|client\/src\/api\.ts|client\/dist\/)/;

const files = filesIn("{src,tools,client}");
const texts = new Map(files.map((file) => [file, textOf(file)]));

test("an exported name stands in one file", () => {
  const names = files
    .filter((file) => !PUBLISHED.test(file))
    .flatMap((file) => exportsOf(file).map((name) => ({ name, file })));
  const repeated = [...Map.groupBy(names, ({ name }) => name)]
    .filter(([, found]) => new Set(found.map(({ file }) => file)).size > 1)
    .map(([name]) => name);
  expect(names.length).toBeGreaterThan(1_000);
  expect(repeated.sort()).toEqual(Object.keys(SHARED).sort());
});

test("no retired word stands in the code", () => {
  const retired = new RegExp(`(?<![\\w-])(${Object.keys(RETIRED).join("|")})(?![\\w-])`, "i");
  const wordy = files.filter((file) => retired.test(texts.get(file) ?? ""));
  expect(wordy.sort()).toEqual([...WORDY].sort());
});

test("a comment begins with its subject", () => {
  const inverted =
    /^\W*(Of (a|an|the|what|all|such|each)\b|What (nobody|is|has|a|an|the)\b|Whoever\b|Those (that|of)\b)/;
  const found = filesIn("{src,tools,client,bench,test}").flatMap((file) =>
    commentsOf(textOf(file))
      .flatMap((comment) => comment.split(/(?<=[.:])\s/))
      .filter((sentence) => inverted.test(sentence))
      .map((sentence) => `${file}: ${sentence}`),
  );
  expect(found).toEqual([]);
});

function filesIn(folders: string): string[] {
  return globSync(`${folders}/**/*.{ts,tsx}`, { cwd: ROOT }).filter((file) => !GENERATED.test(file));
}

function textOf(file: string): string {
  return readFileSync(ROOT + file, "utf8");
}

function commentsOf(text: string): string[] {
  const comments = text.match(/\/\*[\s\S]*?\*\/|\/\/.*$/gm) ?? [];
  return comments.map((comment) => comment.replace(/^\s*\*/gm, " ").replace(/\s+/g, " "));
}

function exportsOf(file: string): string[] {
  const declared =
    /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|const|let|class|type|interface) (\w+)/gm;
  return [...(texts.get(file) ?? "").matchAll(declared)].map(([, name = ""]) => name);
}
