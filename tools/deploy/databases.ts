/**
 * The D1 databases of a deployment: reads their states, creates the missing ones, and migrates all of them. They are
 * read before anything is changed, because a migration that meets tables of another origin stops halfway.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { projectRoot, wranglerResult } from "../wrangler.ts";
import { type ConfigFault, type Environment, settingPlaceOf } from "./config-faults.ts";

type Print = (line: string) => void;

type Database = Readonly<{ name: string; hasId: boolean }>;

/** The databases in the order of their numbers. One with an id in the file exists; it may have no name there. */
export function databasesOf({ config }: Environment): Database[] {
  const numberOf = (binding: string) => Number(/^DB_(\d+)$/.exec(binding)?.[1] ?? 0);
  return config.d1_databases
    .filter(({ binding }) => /^DB(_\d+)?$/.test(binding))
    .toSorted((a, b) => numberOf(a.binding) - numberOf(b.binding))
    .map(({ binding, database_name, database_id }) => ({
      name: database_name ?? binding,
      hasId: database_id !== undefined,
    }));
}

/**
 * The states of a deployment's databases before it: which are missing, and why the others cannot be migrated.
 * @param shared flags for every command of wrangler
 */
export async function databaseStates(target: Environment, shared: readonly string[]) {
  const databases = databasesOf(target);
  const existing = databases.every(({ hasId }) => hasId) ? new Set() : await existingNames(shared);
  const isMissing = ({ name, hasId }: Database) => !hasId && !existing.has(name);
  const faults: ConfigFault[] = [];
  const notes: string[] = [];
  for (const database of databases.filter((one) => !isMissing(one))) {
    const { fault, note } = stateOf(migrationFiles(), await historyOf(database, shared));
    const place = settingPlaceOf(target.name, "d1_databases");
    if (fault)
      faults.push({ place, fault: `the database "${database.name}" ${fault.is}`, remedy: fault.remedy });
    if (note) notes.push(`the database "${database.name}" ${note}`);
  }
  return { missing: databases.filter(isMissing).map(({ name }) => name), faults, notes };
}

async function existingNames(shared: readonly string[]): Promise<ReadonlySet<string>> {
  const { stdout } = await wranglerStep(["d1", "list", "--json", ...shared], "Nothing has been changed.");
  return new Set(listIn<{ name: string }>(stdout, "d1 list").map(({ name }) => name));
}

/** The content of a database: its tables, and the migrations that wrangler has applied. */
type History = Readonly<{ tables: readonly string[]; applied: readonly string[] }>;

const MIGRATIONS_TABLE = "d1_migrations";
/** Tables of SQLite, of D1 and of wrangler. */
const NOT_OURS = /^(?:sqlite_|_cf_|d1_migrations$)/;

async function historyOf({ name }: Database, shared: readonly string[]): Promise<History> {
  async function names(query: string): Promise<string[]> {
    const args = ["d1", "execute", name, "--remote", "--json", "--command", query, ...shared];
    const { stdout } = await wranglerStep(args, "Nothing has been changed.");
    const [answer] = listIn<{ results: readonly { name: string }[] }>(stdout, "d1 execute");
    return answer?.results.map((row) => row.name) ?? [];
  }
  const tables = await names("SELECT name FROM sqlite_master WHERE type = 'table'");
  const applied = tables.includes(MIGRATIONS_TABLE)
    ? await names(`SELECT name FROM ${MIGRATIONS_TABLE} ORDER BY id`)
    : [];
  return { tables: tables.filter((table) => !NOT_OURS.test(table)), applied };
}

/** The only migration of 0.1.0. */
const FIRST_RELEASE = "0000_spine.sql";

type State = Readonly<{ fault?: Readonly<{ is: string; remedy: string }>; note?: string }>;

/** Whether this version's migrations can be applied on top of those that a database has. */
function stateOf(own: readonly string[], { tables, applied }: History): State {
  const another = "give the binding another database_name; the deployment creates it";
  if (applied.length === 0 && tables.length > 0) {
    const is = `has tables (${tables.slice(0, 3).join(", ")}) and no record of migrations: it is not Breakwater's`;
    return { fault: { is, remedy: another } };
  }
  const [first = ""] = own;
  if (applied[0] === FIRST_RELEASE) {
    const is = "is one of 0.1.0, whose tables cannot be migrated";
    return {
      fault: { is, remedy: `${another}. To copy its destinations, see docs/deploying.md#from-010` },
    };
  }
  if (applied.length > 0 && !applied.includes(first)) {
    const is = `was made by ${applied[0]}, which this version cannot upgrade: it begins with ${first}`;
    return { fault: { is, remedy: `${another}, or deploy the version that made it` } };
  }
  const unknown = applied.filter((name) => !own.includes(name));
  if (unknown.length === 0) return {};
  const lacking = own.filter((name) => !applied.includes(name));
  if (lacking.length === 0)
    return { note: `has migrations of a later version, which stay: ${unknown.join(", ")}` };
  const is = `has ${unknown.join(", ")}, which this version does not know, and lacks ${lacking.join(", ")}`;
  return { fault: { is, remedy: "deploy a version that has all of them" } };
}

function migrationFiles(): string[] {
  return readdirSync(join(projectRoot, "migrations"))
    .filter((name) => name.endsWith(".sql"))
    .toSorted();
}

function listIn<T>(json: string, command: string): readonly T[] {
  try {
    return JSON.parse(json.slice(json.indexOf("[")));
  } catch {
    throw new Error(`wrangler ${command} printed no list:\n${json}\nNothing has been changed.`);
  }
}

/** @param placement flags that say where the databases are to be */
export async function createDatabases(
  names: readonly string[],
  placement: readonly string[],
  shared: readonly string[],
  print: Print,
): Promise<void> {
  for (const name of names) {
    print(`Creating the database ${name} …`);
    await wranglerStep(["d1", "create", name, ...placement, ...shared], "The Worker has not been changed.");
  }
}

/** Migrates all databases, so that new code never meets old tables. Returns those that had something to apply. */
export async function migrateDatabases(target: Environment, shared: readonly string[], print: Print) {
  const migrated: string[] = [];
  for (const { name } of databasesOf(target)) {
    print(`Migrating the database ${name} …`);
    const args = ["d1", "migrations", "apply", name, "--remote", ...shared];
    const consequence = "The former code is still live. Fix this and run it again: what was applied stays.";
    const { output } = await wranglerStep(args, consequence);
    // Wrangler ends without an error where a statement was refused without a reason.
    if (output.includes("❌"))
      throw new Error(`wrangler ${args.join(" ")} failed:\n${output}\n${consequence}`);
    if (!output.includes("No migrations to apply")) migrated.push(name);
  }
  return migrated;
}

async function wranglerStep(args: readonly string[], consequence: string) {
  const result = await wranglerResult(args);
  if (result.code === 0) return result;
  throw new Error(
    `wrangler ${args.join(" ")} failed (${result.code}):\n${result.output.trim()}\n${consequence}`,
  );
}
