/**
 * Compares D1's counts for a table that is dropped with those for the same rows deleted: would retention by dropping
 * tables be billed less than by deleting rows (docs/capacity.md)? Measured in a database created for it.
 */
import { type Account, accountOf, callAccount } from "../account.ts";
import type { Check } from "../check.ts";
import { errorMessage } from "../receiver.ts";

const ROWS = 1_000;

export const dropped: Check = {
  name: "dropped",
  expected: "rows that D1 counts for a dropped table, beside the same rows deleted",
  runsAlone: true,
  run: async (run) => {
    const account = accountOf(run, "SQLite there counts no rows for a DROP", "may edit D1");
    if ("skipped" in account) return account;
    const name = run.unique("verify-dropped");
    const made = await callAccount<Readonly<{ uuid: string }>>(account, "/d1/database", {
      method: "POST",
      body: { name },
    }).catch((error: unknown) => ({ skipped: `Cloudflare's API: ${errorMessage(error)}` }));
    if ("skipped" in made) return made;
    const at = `/d1/database/${made.uuid}`;
    let counts: Awaited<ReturnType<typeof countsIn>>;
    try {
      counts = await countsIn(account, at);
    } finally {
      await callAccount(account, at, { method: "DELETE" }).catch((error: unknown) => {
        throw new Error(`Delete the database ${name} by hand: ${errorMessage(error)}`);
      });
    }
    const { deleting, dropping } = counts;
    // If fewer rows are counted than were deleted, the counts mean something else.
    return {
      ok: deleting.rows_written >= ROWS,
      seen: `${ROWS} rows: dropped ${textOf(dropping)}; deleted ${textOf(deleting)}`,
    };
  },
};

type RowCounts = Readonly<{ rows_written: number; rows_read: number }>;

function textOf({ rows_written, rows_read }: RowCounts): string {
  return `${rows_written} written, ${rows_read} read`;
}

/** The counts of a DELETE of all rows, and of a DROP of as many. */
async function countsIn(account: Account, at: string) {
  const query = async (sql: string): Promise<RowCounts> => {
    const [first] = await callAccount<readonly Readonly<{ meta: RowCounts }>[]>(account, `${at}/query`, {
      method: "POST",
      body: { sql },
    });
    if (first === undefined) throw new Error(`${sql} had no result`);
    return first.meta;
  };
  for (const table of ["deleted", "dropped"]) {
    await query(`CREATE TABLE ${table} (id INTEGER PRIMARY KEY, body TEXT NOT NULL)`);
    await query(
      `INSERT INTO ${table} (body) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS}) SELECT hex(i) FROM n`,
    );
  }
  // With a condition, because SQLite empties a table without one at once.
  const deleting = await query("DELETE FROM deleted WHERE id > 0");
  return { deleting, dropping: await query("DROP TABLE dropped") };
}
