/**
 * The development secrets, `.dev.vars`. It is copied from the example when it is missing, so that a fresh clone runs
 * at once; variables that an older file does not have yet are appended.
 */
import { appendFileSync, constants, copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { projectRoot } from "./wrangler.ts";

/** Makes `.dev.vars` exist and be complete; returns whether it was missing. */
export function ensureDevVars(root = projectRoot): boolean {
  const [example, own] = [join(root, ".dev.vars.example"), join(root, ".dev.vars")];
  try {
    copyFileSync(example, own, constants.COPYFILE_EXCL);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    appendMissing(example, own);
    return false;
  }
}

function appendMissing(example: string, own: string): void {
  const known = parseEnv(readFileSync(own, "utf8"));
  const missing = Object.entries(parseEnv(readFileSync(example, "utf8"))).filter(
    ([name]) => !(name in known),
  );
  const lines = missing.map(([name, value]) => `${name}="${value}"`);
  if (lines.length > 0) appendFileSync(own, `\n${lines.join("\n")}\n`);
}

/** The value of a development variable; empty when the file does not have it. */
export function devVar(name: string, root = projectRoot): string {
  return parseEnv(readFileSync(join(root, ".dev.vars"), "utf8"))[name] ?? "";
}
