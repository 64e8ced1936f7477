/**
 * `npm run bench:migrations [-- rows --after 0001]`: how long the migrations since a release take on a large database,
 * with this many rows (10 million by default) in destinations, bundles, packs and deliveries together. Runs SQLite
 * itself, on disk and without a network, so it measures what a statement does to the data, not how long D1 takes.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { parseArgs } from "node:util";
import { machine } from "./machine.ts";

const MIGRATIONS = join(import.meta.dirname, "../migrations");
const BREAKPOINT = "--> statement-breakpoint";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  // The last migration of 0.3.0.
  options: { after: { type: "string", default: "0001" } },
});
const rows = Number(positionals[0] ?? 10_000_000);
const count = {
  destinations: rows / 20,
  bundles: rows / 10,
  packs: (rows * 9) / 20,
  deliveries: (rows * 2) / 5,
};

/** A table expression `numbers`, whose column `n` counts from 0 to `until - 1`. */
const numbers = (until: number) => `WITH RECURSIVE numbers (n) AS (
  SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ${until})`;

const FILLS = [
  `${numbers(count.destinations)} INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
    SELECT printf('dst_%08d', n), 'tenant-' || (n % 10000), 'https://example.com/' || n, 'sealed', n, n FROM numbers`,
  `${numbers(count.bundles)} INSERT INTO bundles (id, tokens, accepted_at, count, planned, plan, header, body)
    SELECT n, '', n, 10, 10, '[]', '{"v":1}', zeroblob(100) FROM numbers`,
  `${numbers(count.packs)} INSERT INTO packs (destination_id, bundle_id, delivered0, ended_at)
    SELECT printf('dst_%08d', n % ${count.destinations}), n / ${count.destinations}, 1023, n FROM numbers`,
  `${numbers(count.deliveries)} INSERT INTO deliveries (destination_id, event_id, state, give_up_at)
    SELECT printf('dst_%08d', n % ${count.destinations}), 128 * 1000 + n / ${count.destinations},
      CASE n % 10 WHEN 0 THEN 'waiting' WHEN 1 THEN 'retrying' ELSE 'dead' END, n FROM numbers`,
];

const directory = mkdtempSync(join(tmpdir(), "breakwater-migrations-"));
try {
  const file = join(directory, "d1.sqlite");
  const db = new DatabaseSync(file);
  db.exec("PRAGMA journal_mode = WAL");
  const files = readdirSync(MIGRATIONS).filter((name) => name.endsWith(".sql"));
  const [before, since] = [
    files.filter((name) => name.slice(0, 4) <= values.after),
    files.filter((name) => name.slice(0, 4) > values.after),
  ];
  for (const name of before.sort()) for (const statement of statementsOf(name)) db.exec(statement);
  for (const fill of FILLS) db.exec(`BEGIN; ${fill}; COMMIT`);
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  console.log(
    `${rows.toLocaleString("en")} rows, ${Math.round(statSync(file).size / 1e6).toLocaleString("en")} MB\n`,
  );
  console.log("| migration | statements | ms | slowest statement, ms |\n| --- | --- | --- | --- |");
  for (const name of since.sort()) {
    const took = statementsOf(name).map((statement) => {
      const startedAt = performance.now();
      db.exec(statement);
      return performance.now() - startedAt;
    });
    const all = took.reduce((sum, ms) => sum + ms, 0);
    console.log(`| ${name} | ${took.length} | ${all.toFixed(1)} | ${Math.max(...took).toFixed(1)} |`);
  }
  db.close();
  console.log(`\n${machine()}`);
} finally {
  rmSync(directory, { recursive: true, force: true });
}

function statementsOf(name: string): string[] {
  return readFileSync(join(MIGRATIONS, name), "utf8").split(BREAKPOINT);
}
