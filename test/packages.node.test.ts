/** The packages of package.json: each has a use, which CONTRIBUTING.md names, and no other is imported. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = new URL("..", import.meta.url).pathname;
const textOf = (file: string) => readFileSync(join(ROOT, file), "utf8");

const { dependencies, devDependencies } = JSON.parse(textOf("package.json"));
const declared = Object.keys({ ...dependencies, ...devDependencies }).sort();

/** Packages that nothing imports. */
const COMMANDS_AND_TYPES = [
  "@biomejs/biome",
  "@cloudflare/workers-types",
  "@types/autocannon",
  "@types/node",
  "@types/pg",
  "node",
  "typescript",
];
/** The package of this repository, which a test installs. */
const OWN = "breakwater-client";

test("package.json has the packages that files import, and no others", () => {
  const files = globSync("{src,tools,client,test,bench,site}/**/*.{ts,tsx,js,mjs}", { cwd: ROOT });
  const imported = files
    .filter((file) => !/(^|\/)(node_modules|dist|cache)\//.test(file))
    .flatMap((file) => [
      ...textOf(file).matchAll(
        /(?:^(?:import|export) [^"\n]*from |^import |^\} from |await import\()"([^"\n]+)"/gm,
      ),
    ])
    .map(([, from = ""]) => from)
    .filter((from) => !/^(\.|node:|cloudflare:|\/)/.test(from))
    .flatMap((from) => /^(?:@[^/]+\/)?[^/]+/.exec(from) ?? []);
  const used = new Set<string>([...imported, ...COMMANDS_AND_TYPES]);
  used.delete(OWN);
  expect([...used].sort()).toEqual(declared);
});

test("CONTRIBUTING.md says what each package is for", () => {
  const [, section = ""] = textOf(".github/CONTRIBUTING.md").split("\n## Packages\n");
  const rows = section.split("\n## ")[0]?.matchAll(/^\| (`[^|]*`) \|/gm) ?? [];
  const named = [...rows].flatMap(([, names = ""]) =>
    [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => name),
  );
  expect(named.sort()).toEqual(declared);
});
