import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { databasesIn } from "../../src/local/migrations.ts";

const toml = readFileSync(new URL("../../wrangler.toml", import.meta.url).pathname, "utf8");

test("finds the one database that is bound, and not those of the example", () => {
  expect(databasesIn(toml)).toEqual(["DB"]);
});

test("finds all of them when the example is taken out of its comments", () => {
  const taken = toml.replace(/^# (\[\[d1_databases|binding|database_name|migrations_dir)/gm, "$1");
  expect(databasesIn(taken)).toEqual(["DB", "DB_1", "DB_2"]);
});
