/** All mutants of the folders that are tested, with their numbers: the same in the runner and in Vitest's configuration. */
import { execFileSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
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
  /** Where it is, counted from 1. */
  line: number;
  original: string;
  replacement: string;
}>;

type File = Readonly<{ file: string; source: string; sites: readonly Site[]; firstId: number }>;

export type Plan = Readonly<{ mutants: readonly Mutant[]; files: ReadonlyMap<string, File> }>;

function isTested(file: string): boolean {
  const folder = file.split("/")[1] ?? "";
  const isInFolder = (FOLDERS as readonly string[]).includes(folder);
  return isInFolder && !WITHOUT.has(file) && (folder !== "features" || OF_FEATURES.test(file));
}

/**
 * @param root the folder that has src/, with a slash at its end
 * @param has whether a file's mutants are wanted
 */
export function planned(root = ROOT, has = isTested): Plan {
  const files = new Map<string, File>();
  const mutants: Mutant[] = [];
  for (const file of globSync("src/**/*.ts", { cwd: root }).sort()) {
    const source = readFileSync(root + file, "utf8");
    const sites = has(file) ? sitesOf(source) : [];
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

/** The mutants that the sources of a commit have, in all folders: they may have had other names. */
export function mutantsAt(commit: string): readonly Mutant[] {
  const folder = mkdtempSync(join(tmpdir(), "mutation-"));
  try {
    const archive = execFileSync("git", ["archive", commit, "src"], { cwd: ROOT, maxBuffer: 2 ** 28 });
    execFileSync("tar", ["-x", "-C", folder], { input: archive });
    return planned(`${folder}/`, () => true).mutants;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * The mutants that former sources do not have in any file, so that code which only moved is not new. Of several alike those
 * are new that are more than there were.
 */
export function newMutants(mutants: readonly Mutant[], former: readonly Mutant[]): Mutant[] {
  const left = new Map<string, number>();
  for (const one of former) left.set(changeOf(one), (left.get(changeOf(one)) ?? 0) + 1);
  return mutants.filter((one) => {
    const count = left.get(changeOf(one)) ?? 0;
    left.set(changeOf(one), count - 1);
    return count <= 0;
  });
}

const changeOf = ({ original, replacement }: Mutant) => `${original}\n${replacement}`;

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
