/** All mutants of the folders that are tested, with their numbers: the same in the runner and in Vitest's configuration. */
import { globSync, readFileSync } from "node:fs";
import { dirname, posix } from "node:path";
import { instrumented, marked } from "./instrument.ts";
import { type Site, sitesOf } from "./mutators.ts";

export const ROOT = new URL("../..", import.meta.url).pathname;

/** The folders with mutants. */
export const FOLDERS = ["core", "ingest", "delivery", "store", "features"] as const;

/** The tested parts of features: their statements. Services and routes are tested through their adapters. */
const OF_FEATURES = /\/(sql|settings|removal)\.ts$/;

/** The schema declares what migrations/ holds, and tests compare the two. */
const WITHOUT = new Set(["src/store/schema.ts", "src/store/drizzle.config.ts"]);

export type Mutant = Readonly<{
  id: number;
  file: string;
  /** Where it is, counted from 1, and the text of that line. */
  line: number;
  original: string;
  replacement: string;
}>;

type File = Readonly<{ file: string; source: string; sites: readonly Site[]; firstId: number }>;

export type Plan = Readonly<{ mutants: readonly Mutant[]; files: ReadonlyMap<string, File> }>;

export function planned(): Plan {
  const files = new Map<string, File>();
  const mutants: Mutant[] = [];
  for (const file of globSync("src/**/*.ts", { cwd: ROOT }).sort()) {
    const folder = file.split("/")[1] ?? "";
    const source = readFileSync(ROOT + file, "utf8");
    const isInFolder = (FOLDERS as readonly string[]).includes(folder);
    const isTested = isInFolder && !WITHOUT.has(file) && (folder !== "features" || OF_FEATURES.test(file));
    const sites = isTested ? sitesOf(source) : [];
    files.set(file, { file, source, sites, firstId: mutants.length + 1 });
    for (const { start, end, replacements } of sites) {
      const line = source.slice(0, start).split("\n").length;
      const original = source.slice(start, end);
      for (const replacement of replacements)
        mutants.push({ id: mutants.length + 1, file, line, original, replacement });
    }
  }
  return { mutants, files };
}

/** A Vite plugin that instruments the files of a plan. */
export function mutationPlugin({ files }: Plan) {
  return {
    name: "mutation",
    enforce: "pre" as const,
    transform(source: string, id: string): string | undefined {
      const path = id.split("?")[0] ?? "";
      const file = path.startsWith(ROOT) ? path.slice(ROOT.length) : "";
      const resolved = (specifier: string) => {
        const target = posix.join(dirname(file), specifier);
        return specifier.startsWith(".") && files.has(target) && !WITHOUT.has(target) ? target : undefined;
      };
      // A test that reads a constant reaches the mutants of its value.
      if (/^test\/(?!mutation\/).*\.ts$/.test(file)) return marked(source, resolved);
      const found = files.get(file);
      return found && !WITHOUT.has(file) ? instrumented(found, resolved) : undefined;
    },
  };
}
