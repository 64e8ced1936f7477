import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parseConfig } from "../../src/config.ts";
import { devVar, ensureDevVars } from "../../tools/dev-vars.ts";
import { projectRoot, readWranglerConfig } from "../../tools/wrangler.ts";

const read = (...path: string[]) => readFileSync(join(...path), "utf8");

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "breakwater-vars-"));
});
afterEach(() => rmSync(root, { recursive: true }));

test("the example has every required secret, nothing else, and no value", async () => {
  const example = parseEnv(read(projectRoot, ".dev.vars.example"));
  const { secrets } = (await readWranglerConfig()) as unknown as { secrets: { required: string[] } };
  expect(Object.keys(example).toSorted()).toEqual(secrets.required.toSorted());
  expect(Object.values(example).join("")).toBe("");
});

test("a deployment with the example's values is refused, and each of its variables named", () => {
  const parse = () => parseConfig(parseEnv(read(projectRoot, ".dev.vars.example")));
  expect(parse).toThrow(/ADMIN_KEY is too short.*MASTER_KEYS expected at least one id:base64/);
});

test("a missing file is created so that a Worker can use it", () => {
  expect(ensureDevVars(root)).toBe(true);
  const made = read(root, ".dev.vars");
  expect(parseConfig(parseEnv(made))).toMatchObject({ graceMs: 20_000, allowPrivateDestinations: true });
  expect(ensureDevVars(root)).toBe(false);
  expect(read(root, ".dev.vars")).toBe(made);
});

test("no two clones have the same secrets", () => {
  ensureDevVars(root);
  const first = [devVar("ADMIN_KEY", root), devVar("MASTER_KEYS", root)];
  rmSync(join(root, ".dev.vars"));
  ensureDevVars(root);
  expect(first).not.toContain(devVar("ADMIN_KEY", root));
  expect(first).not.toContain(devVar("MASTER_KEYS", root));
});

test("a shell reads the key as Breakwater does", () => {
  ensureDevVars(root);
  const key = execFileSync("sh", ["-c", '. "$0"; printf %s "$ADMIN_KEY"', join(root, ".dev.vars")]);
  expect(String(key)).toBe(devVar("ADMIN_KEY", root));
});

test("a file keeps its values, and gets missing and empty ones", () => {
  writeFileSync(join(root, ".dev.vars"), 'ADMIN_KEY=own\nMASTER_KEYS=""\n');
  expect(ensureDevVars(root)).toBe(false);
  expect([devVar("ADMIN_KEY", root), devVar("GRACE_SECONDS", root)]).toEqual(["own", "20"]);
  expect(devVar("MASTER_KEYS", root)).toMatch(/^dev:.{44}$/);
});
