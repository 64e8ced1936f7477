/**
 * The development secrets, `.dev.vars`: made from the example when they are missing, so that a fresh clone
 * runs at once, and never touched when they are there.
 */
import { constants, copyFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "./wrangler.ts";

/** Makes `.dev.vars` exist; answers whether it had to be made. */
export function ensureDevVars(root = projectRoot): boolean {
  try {
    copyFileSync(join(root, ".dev.vars.example"), join(root, ".dev.vars"), constants.COPYFILE_EXCL);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}
