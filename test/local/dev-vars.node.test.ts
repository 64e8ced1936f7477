import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parseConfig } from "../../src/config.ts";
import { devVar, ensureDevVars } from "../../src/local/dev-vars.ts";
import { projectRoot } from "../../src/local/wrangler.ts";

const EXAMPLE = `# Development values only.\nADMIN_KEY="a key"\nGRACE_SECONDS="20"\n`;

test("the example's secrets are those that a public host refuses", () => {
  const { ADMIN_KEY = "", MASTER_KEYS = "" } = parseEnv(
    readFileSync(join(projectRoot, ".dev.vars.example"), "utf8"),
  );
  const { exampleSecrets } = parseConfig({ ADMIN_KEY, MASTER_KEYS });
  expect(exampleSecrets).toEqual(["ADMIN_KEY", "MASTER_KEYS"]);
});

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "breakwater-vars-"));
  writeFileSync(join(root, ".dev.vars.example"), EXAMPLE);
});
afterEach(() => rmSync(root, { recursive: true }));

test("the example is copied where there is no file", () => {
  expect(ensureDevVars(root)).toBe(true);
  expect(readFileSync(join(root, ".dev.vars"), "utf8")).toBe(EXAMPLE);
  expect(ensureDevVars(root)).toBe(false);
  expect(readFileSync(join(root, ".dev.vars"), "utf8")).toBe(EXAMPLE);
});

test("a file keeps its values, and gets those that it does not have yet", () => {
  writeFileSync(join(root, ".dev.vars"), "ADMIN_KEY=own\n");
  expect(ensureDevVars(root)).toBe(false);
  expect([devVar("ADMIN_KEY", root), devVar("GRACE_SECONDS", root)]).toEqual(["own", "20"]);
  expect(devVar("MASTER_KEYS", root)).toBe("");
});
