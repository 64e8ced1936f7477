/**
 * The development secrets, `.dev.vars`: made from the example when they are missing, so that a fresh clone
 * runs at once. A file that is there keeps what it says; what an older one does not name yet is added.
 */
import { appendFileSync, constants, copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "./wrangler.ts";

/** Makes `.dev.vars` exist, and complete; answers whether it had to be made. */
export function ensureDevVars(root = projectRoot): boolean {
  const [example, own] = [join(root, ".dev.vars.example"), join(root, ".dev.vars")];
  try {
    copyFileSync(example, own, constants.COPYFILE_EXCL);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    addMissing(example, own);
    return false;
  }
}

function addMissing(example: string, own: string): void {
  const named = new Set(settingsIn(own).map(nameOf));
  const missing = settingsIn(example).filter((line) => !named.has(nameOf(line)));
  if (missing.length > 0) appendFileSync(own, `\n${missing.join("\n")}\n`);
}

function settingsIn(file: string): string[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => /^[A-Z_]+=/.test(line));
}

function nameOf(line: string): string {
  return line.slice(0, line.indexOf("="));
}

/** The value of a development secret; empty when the file does not name it. */
export function devVar(name: string, root = projectRoot): string {
  const line = settingsIn(join(root, ".dev.vars")).findLast((setting) => nameOf(setting) === name);
  return line?.slice(name.length + 1).replace(/^"(.*)"$/, "$1") ?? "";
}
