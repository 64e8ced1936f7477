/** The notes of a release, and the package that is published with it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { releaseFiles } from "../../tools/release.ts";
import { projectRoot } from "../../tools/wrangler.ts";

const files = {
  "package.json": '{ "version": "1.2.0" }',
  "CHANGELOG.md": `# Changelog

## [1.2.0] - 2026-11-27

A paragraph of
two lines, with [a page](docs/using.md#top).

### Added

- An item, whose second
  line has [a link](https://example.com/x) and [another](CHANGELOG.md).
- An item with code:

  \`\`\`sh
  first
  second
  \`\`\`

| a | b |
|---|---|
| 1 | 2 |

## [1.1.0] - 2026-11-01

Older.
`,
  "client/dist/README.md":
    "[the reference](../docs/reference.md), [below](#below), [the sources](src/verify.ts)\n",
  "client/dist/package.json": '{ "name": "breakwater-client" }',
};
const release = (changed = {}, tag = "v1.2.0") =>
  releaseFiles({ ...files, ...changed }, tag, "acme/breakwater");

test("the notes are the version's section, a line for each paragraph and item, with links to the tag", () => {
  expect(
    release()["notes.md"],
  ).toBe(`A paragraph of two lines, with [a page](https://github.com/acme/breakwater/blob/v1.2.0/docs/using.md#top).

### Added

- An item, whose second line has [a link](https://example.com/x) and [another](https://github.com/acme/breakwater/blob/v1.2.0/CHANGELOG.md).
- An item with code:

  \`\`\`sh
  first
  second
  \`\`\`

| a | b |
|---|---|
| 1 | 2 |
`);
});

test("the package names the repository, as its provenance must, and its page's links lead there", () => {
  const written = release();
  expect(JSON.parse(written["client/dist/package.json"] ?? "")).toEqual({
    name: "breakwater-client",
    repository: { type: "git", url: "git+https://github.com/acme/breakwater.git", directory: "client" },
  });
  const root = "https://github.com/acme/breakwater/blob/v1.2.0";
  expect(written["client/dist/README.md"]).toBe(
    `[the reference](${root}/docs/reference.md), [below](#below), [the sources](${root}/client/src/verify.ts)\n`,
  );
});

describe("nothing is released", () => {
  test("when the tag is of another version", () => {
    expect(() => release({}, "v1.3.0")).toThrow(
      '--tag is "v1.3.0"; expected v1.2.0, the version of package.json',
    );
  });

  test.each([
    "",
    "## [1.2.0] - 2026-11-27\n\n## [1.1.0] - 2026-11-01\n\nOlder.\n",
  ])("when the changelog says nothing about the version: %j", (changelog) => {
    expect(() => release({ "CHANGELOG.md": changelog })).toThrow("CHANGELOG.md has nothing under [1.2.0]");
  });
});

test("the changelog has notes of this version, within what GitHub takes", () => {
  const named = ["package.json", "CHANGELOG.md"].map((name) => [
    name,
    readFileSync(join(projectRoot, name), "utf8"),
  ]);
  const current = { ...files, ...Object.fromEntries(named) };
  const { version } = JSON.parse(current["package.json"]);
  const notes = releaseFiles(current, `v${version}`, "acme/breakwater")["notes.md"] ?? "";
  expect(notes.length).toBeLessThan(125_000);
  expect(notes).not.toMatch(/\]\((?!https:)/);
});
