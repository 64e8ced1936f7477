/** The code that the portal shows verifies what Breakwater signs, and nothing else: run as it is, where that is possible. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { recipeOf, type SignatureForm } from "../../../src/core/signature-forms.ts";
import { libraries } from "../../../src/pages/portal/libraries.ts";
import { type SnippetLanguage, snippetLanguages, snippetOf } from "../../../src/pages/portal/snippets.ts";
import { lacking } from "../../receivers/languages.ts";
import { type Case, casesOf, forms, SECRET } from "./snippet-cases.ts";

const place = mkdtempSync(join(tmpdir(), "breakwater-snippets-"));
afterAll(() => rmSync(place, { recursive: true, force: true }));

const hasPython = (await lacking("python", "python3", ["--version"])) === undefined;
const hasGo = (await lacking("go", "go", ["version"])) === undefined;

type Runner = Readonly<{
  isThere: boolean;
  verdicts: (form: SignatureForm, cases: readonly Case[]) => boolean[];
}>;

const env = { ...process.env, WEBHOOK_SECRET: SECRET, GOFLAGS: "-mod=mod", GOTOOLCHAIN: "local" };

/** Runs a command, which prints a list of verdicts as JSON. */
function run(command: string, args: readonly string[]): boolean[] {
  return JSON.parse(execFileSync(command, args, { env, cwd: place, encoding: "utf8" })) as boolean[];
}

function write(name: string, text: string): string {
  const path = join(place, name);
  writeFileSync(path, text);
  return path;
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
    verdicts: (form, cases) => {
      const code = snippetOf("go", recipeOf(form)).replace("package webhooks", "package main");
      const requests = cases.map(({ headers, body }) => {
        const set = Object.entries(headers).map(
          ([n, v]) => `h.Set(${JSON.stringify(n)}, ${JSON.stringify(v)})`,
        );
        return `h = http.Header{}; ${set.join("; ")}; out = append(out, strconv.FormatBool(verify(h, []byte(${JSON.stringify(body)}))))`;
      });
      const main = `func main() {\n\tvar h http.Header\n\tout := []string{}\n\t${requests.join("\n\t")}\n\tprintln0(out)\n}\nfunc println0(out []string) {\n\tos.Stdout.WriteString("[")\n\tfor i, one := range out {\n\t\tif i > 0 {\n\t\t\tos.Stdout.WriteString(",")\n\t\t}\n\t\tos.Stdout.WriteString(one)\n\t}\n\tos.Stdout.WriteString("]")\n}\n`;
      return run("go", ["run", write(`${form.form}.go`, `${code}\n${main}`)]);
    },
  },
};

describe.each(Object.entries(runners))("the code for %s", (_, { isThere, verdicts }) => {
  test.skipIf(!isThere).each(forms.map((form) => [form.form, form] as const))(
    "verifies the form %s",
    (_name, form) => {
      const cases = casesOf(form, Math.floor(Date.now() / 1000));
      const found = verdicts(form, cases);
      expect(cases.map(({ name }, i) => [name, found[i]])).toEqual(
        cases.map(({ name, valid }) => [name, valid]),
      );
    },
  );
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

test("the code of every language is there for every form, and names its header", () => {
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
