/** The code that the portal shows verifies what Breakwater signs, and nothing else: run as it is, where that is possible. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { recipeOf, type SignatureForm } from "../../../src/core/signature-forms.ts";
import { libraries } from "../../../src/pages/portal/libraries.ts";
import { type SnippetLanguage, snippetLanguages, snippetOf } from "../../../src/pages/portal/snippets.ts";
import { lacking } from "../../receivers/languages.ts";
import { skipped } from "../../support/skipped.ts";
import { type Case, casesOf, forms, SECRET } from "./snippet-cases.ts";

const place = mkdtempSync(join(tmpdir(), "breakwater-snippets-"));
afterAll(() => rmSync(place, { recursive: true, force: true }));

const hasPython = (await lacking("python", "python3", ["--version"])) === undefined;
const hasGo = (await lacking("go", "go", ["version"])) === undefined;

type Runner = Readonly<{
  isThere: boolean;
  /** Languages that may take longer than a signature is valid on a slow machine. */
  prepare?: () => void;
  verdicts: (form: SignatureForm, cases: readonly Case[]) => boolean[];
}>;

const env = { ...process.env, WEBHOOK_SECRET: SECRET, GOFLAGS: "-mod=mod", GOTOOLCHAIN: "local" };

/** Runs a command, which prints a list of verdicts as JSON. */
function run(command: string, args: readonly string[], input = ""): boolean[] {
  return JSON.parse(execFileSync(command, args, { env, cwd: place, encoding: "utf8", input })) as boolean[];
}

function write(name: string, text: string): string {
  const path = join(place, name);
  writeFileSync(path, text);
  return path;
}

const GO_MAIN = `package main

import (
	"encoding/json"
	"net/http"
	"os"
	IMPORTS
)

func main() {
	verify := map[string]func(http.Header, []byte) bool{FUNCTIONS}[os.Args[1]]
	var cases []struct {
		Headers map[string]string
		Body    string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		panic(err)
	}
	verdicts := []bool{}
	for _, one := range cases {
		header := http.Header{}
		for name, value := range one.Headers {
			header.Set(name, value)
		}
		verdicts = append(verdicts, verify(header, []byte(one.Body)))
	}
	json.NewEncoder(os.Stdout).Encode(verdicts)
}
`;

/** One program with the code of all forms, each in a package of its own, because linking takes longer than all else. */
function buildGo(): void {
  const add = (path: string, text: string) => {
    mkdirSync(dirname(join(place, path)), { recursive: true });
    write(path, text);
  };
  for (const form of forms) {
    add(`${form.form}/webhooks.go`, snippetOf("go", recipeOf(form)));
    add(`${form.form}/exported.go`, "package webhooks\n\nvar Verify = verify\n");
  }
  const imports = forms.map(({ form }) => `${form} "snippets/${form}"`).join("\n\t");
  const functions = forms.map(({ form }) => `"${form}": ${form}.Verify`).join(", ");
  add("go.mod", "module snippets\n\ngo 1.21\n");
  add("main.go", GO_MAIN.replace("IMPORTS", imports).replace("FUNCTIONS", functions));
  execFileSync("go", ["build", "-o", "verdicts", "."], { env, cwd: place });
}

const runners: Partial<Record<SnippetLanguage, Runner>> = {
  node: {
    isThere: true,
    verdicts: (form, cases) => {
      const more = `console.log(JSON.stringify(${JSON.stringify(cases)}.map(({ headers, body }) => verify(headers, Buffer.from(body)))));`;
      return run(process.execPath, [
        write(`${form.form}.mjs`, `${snippetOf("node", recipeOf(form))}\n${more}`),
      ]);
    },
  },
  python: {
    isThere: hasPython,
    verdicts: (form, cases) => {
      const more = `import json\nprint(json.dumps([verify(one["headers"], one["body"].encode()) for one in json.loads(${JSON.stringify(JSON.stringify(cases))})]))`;
      return run("python3", [write(`${form.form}.py`, `${snippetOf("python", recipeOf(form))}\n${more}\n`)]);
    },
  },
  go: {
    isThere: hasGo,
    prepare: buildGo,
    verdicts: ({ form }, cases) => run(join(place, "verdicts"), [form], JSON.stringify(cases)),
  },
};

describe.each(Object.entries(runners))("the code for %s", (language, { isThere, prepare, verdicts }) => {
  if (!isThere) return skipped(`the code for ${language}`, "this machine lacks it");
  beforeAll(() => prepare?.());

  test.each(forms.map((form) => [form.form, form] as const))("verifies the form %s", (_name, form) => {
    const cases = casesOf(form, Math.floor(Date.now() / 1000));
    const found = verdicts(form, cases);
    expect(cases.map(({ name }, i) => [name, found[i]])).toEqual(
      cases.map(({ name, valid }) => [name, valid]),
    );
  });
});

test("the code with the library for Node verifies the standard form", () => {
  symlinkSync(new URL("../../../node_modules", import.meta.url).pathname, join(place, "node_modules"));
  const cases = casesOf({ form: "standard" }, Math.floor(Date.now() / 1000));
  const more = `const isVerified = ({ headers, body }) => { try { verify(headers, Buffer.from(body)); return true; } catch { return false; } };
console.log(JSON.stringify(${JSON.stringify(cases)}.map(isVerified)));`;
  const found = run(process.execPath, [write("library.mjs", `${libraries.node.code}\n${more}`)]);
  expect(cases.map(({ name }, i) => [name, found[i]])).toEqual(cases.map(({ name, valid }) => [name, valid]));
});

test("the code with a library names it, and the variable of the secret", () => {
  for (const { install, code } of Object.values(libraries))
    expect([code.includes(install), code.includes("WEBHOOK_SECRET")]).toEqual([true, true]);
});

test("the code of every language exists for every form, and names its header", () => {
  for (const language of Object.keys(snippetLanguages) as SnippetLanguage[])
    for (const form of forms) {
      const recipe = recipeOf(form);
      const code = snippetOf(language, recipe);
      expect([language, code.includes(recipe.header), code.includes("WEBHOOK_SECRET")]).toEqual([
        language,
        true,
        true,
      ]);
      expect(code).not.toContain("undefined");
    }
});
