import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { databasesIn } from "../../tools/migrate.ts";

const toml = readFileSync(new URL("../../wrangler.toml", import.meta.url).pathname, "utf8");

async function databasesOf(text: string): Promise<string[]> {
  const directory = mkdtempSync(join(tmpdir(), "breakwater-config-"));
  try {
    const file = join(directory, "wrangler.toml");
    writeFileSync(file, text);
    return await databasesIn(file);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test("migrations find the one bound database, and not those of the example", async () => {
  expect(await databasesIn()).toEqual(["DB"]);
  expect(await databasesOf(toml)).toEqual(["DB"]);
});

test("migrations find all databases when the example is uncommented", async () => {
  const taken = toml.replaceAll(/^# \[\[d1_databases\]\]\n(# .+\n)+/gm, (example) =>
    example.replaceAll(/^# /gm, ""),
  );
  expect(await databasesOf(taken)).toEqual(["DB", "DB_1", "DB_2"]);
});
