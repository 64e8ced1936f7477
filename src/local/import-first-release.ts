/**
 * `npm run import:0.1.0 -- --from destinations.json --to … --key …`: imports the destinations of a database of 0.1.0 into a
 * deployment of this version. docs/deploying.md has how to move.
 */
import { readFileSync } from "node:fs";
import { parseMasterKeys } from "../secrets/vault.ts";
import { documentsOf, QUERY, rowsIn } from "./first-release.ts";
import { readFlags, runScript, UsageError } from "./flags.ts";
import { apiClient } from "./stack.ts";

const HELP = `npm run import:0.1.0 -- --from FILE --to URL --key KEY [--apply]    Imports the destinations of a database of 0.1.0.

  --from FILE        what this prints: npx wrangler d1 execute breakwater --remote --json \\
                     --command "${QUERY}"
  --to URL           the deployment of this version; else $BREAKWATER_URL
  --key KEY          its ADMIN_KEY, or another key with all scopes and no tenant; else $BREAKWATER_KEY
  --apply            do it; otherwise the deployment only checks all of it
  -h, --help         this

$MASTER_KEYS has to be the one of the deployment of 0.1.0, which opens its signing secrets. It may be repeated: what is
there already is not created again, and keeps its secret.
The exit code is 0 when all is well, 1 when something was not imported, 2 after a mistake in the command line.`;

const text = { type: "string" } as const;
const read = () =>
  readFlags(process.argv.slice(2), { from: text, to: text, key: text, apply: { type: "boolean" } });

type Result = Readonly<{
  created: readonly unknown[];
  changed: readonly unknown[];
  unchanged: readonly unknown[];
}>;

process.exitCode = await runScript(HELP, read, async ({ values }) => {
  const given = (name: string, otherwise?: string): string => {
    const value = typeof values[name] === "string" ? values[name] : otherwise;
    if (value) return value;
    throw new UsageError(`--${name} is missing`);
  };
  const from = given("from");
  const url = given("to", process.env.BREAKWATER_URL).replace(/\/+$/, "");
  const api = apiClient(url, given("key", process.env.BREAKWATER_KEY));
  const keys = parseMasterKeys(process.env.MASTER_KEYS ?? "");
  if ("fault" in keys) throw new UsageError(`$MASTER_KEYS: ${keys.fault}`);
  const rows = rowsIn(readFileSync(from, "utf8"));
  // All of them before the first is written: a secret that does not open stops it.
  const documents = await documentsOf(rows, keys);
  const dryRun = values.apply ? "" : "?dry_run=true";
  for (const { tenant, body } of documents) {
    const path = `/v1/tenants/${encodeURIComponent(tenant)}/import${dryRun}`;
    const { created, changed, unchanged } = await api.post<Result>(path, body);
    console.log(
      `${tenant}: ${created.length} created, ${changed.length} changed, ${unchanged.length} as they were`,
    );
  }
  const what = `${rows.length} destinations of ${new Set(documents.map(({ tenant }) => tenant)).size} tenants`;
  console.log(values.apply ? `Imported ${what}.` : `${what} can be imported: --apply does it.`);
  return 0;
});
