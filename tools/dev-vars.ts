/**
 * The development variables, `.dev.vars`: random secrets of this clone, and settings for development. The file is
 * created when it is missing, so that a fresh clone runs at once; variables that an older file lacks are appended.
 *
 * They do not come from `.dev.vars.example`, which has no values: Cloudflare's deploy button fills a deployment's secrets in
 * from that file, and everyone can read it.
 */
import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { projectRoot } from "./wrangler.ts";

const HEADER =
  "# Made by `npm run dev`: secrets of this clone and settings for development. Not for a deployment.\n";

function newDevVars(): Record<string, string> {
  return {
    ADMIN_KEY: `dev-${randomBytes(16).toString("hex")}`,
    MASTER_KEYS: `dev:${randomBytes(32).toString("base64")}`,
    GRACE_SECONDS: "20",
    ALLOW_PRIVATE_DESTINATIONS: "true",
  };
}

/** Creates or completes `.dev.vars`; returns whether it was missing. */
export function ensureDevVars(root = projectRoot): boolean {
  const file = join(root, ".dev.vars");
  const isMissing = !existsSync(file);
  const known = isMissing ? {} : parseEnv(readFileSync(file, "utf8"));
  const lines = Object.entries(newDevVars()).flatMap(([name, value]) =>
    known[name] ? [] : [`${name}="${value}"`],
  );
  if (isMissing) writeFileSync(file, `${HEADER}${lines.join("\n")}\n`, { flag: "wx", mode: 0o600 });
  else if (lines.length > 0) appendFileSync(file, `\n${lines.join("\n")}\n`);
  return isMissing;
}

/** The value of a development variable; empty when the file does not have it. */
export function devVar(name: string, root = projectRoot): string {
  return parseEnv(readFileSync(join(root, ".dev.vars"), "utf8"))[name] ?? "";
}
