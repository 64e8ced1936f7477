/**
 * A deployment, step by step: check the configuration, create the databases that are missing, migrate every database,
 * deploy the Worker, ask it for its health. Each step is safe to repeat, and a failure stops before the next one.
 *
 * The databases are created here and not by `wrangler deploy`, so that their tables are there before the code that needs
 * them, also in a database that is added later. The queues are left to `wrangler deploy`, which creates each queue that a
 * producer is bound to, the dead-letter queue among them.
 */
import { basename, resolve } from "node:path";
import { addressIn, projectRoot, readEnvironments, wranglerInTerminal, wranglerResult } from "../wrangler.ts";
import { configFaults, configNotes, type Environment } from "./config-faults.ts";

export type Deployment = Readonly<{
  /** The configuration file, from the root of the project. */
  config: string;
  /** The environment of that file; empty: its top level. */
  environment: string;
  /** Flags that every command of wrangler gets: which file, environment, account. */
  shared: readonly string[];
  /** Further flags for `wrangler deploy`. */
  others: readonly string[];
  /** Flags for creating a database: where it is to live. */
  placement: readonly string[];
  /** How long the Worker may take until it is healthy; 0: it is not asked. */
  healthMs: number;
}>;

type Print = (line: string) => void;

/** Deploys, and prints what it does. Rejects, saying what has been done and how to go on, when a step fails. */
export async function deploy(deployment: Deployment, print: Print): Promise<void> {
  const target = await checkedEnvironment(deployment, print);
  const created = await createDatabases(target, deployment, print);
  const migrated = await migrateDatabases(target, deployment, print);
  const url = await deployWorker(deployment, print);
  const health = await waitForHealth(url, deployment.healthMs, print);
  print(`\nDeployed ${target.config.name}:`);
  print(`  databases created   ${created.join(", ") || "none"}`);
  print(`  databases migrated  ${migrated.join(", ") || "none: all were up to date"}`);
  print(`  address             ${url ?? "none: there is neither workers_dev nor a route"}`);
  print(`  health              ${health}`);
}

/** Checks the configuration, has wrangler build the Worker, and prints what a deployment would do. Changes nothing. */
export async function planDeployment(deployment: Deployment, print: Print): Promise<void> {
  const target = await checkedEnvironment(deployment, print);
  const { shared, others } = deployment;
  const { code } = await wranglerInTerminal(["deploy", "--dry-run", ...shared, ...others]);
  if (code !== 0) throw new Error(`wrangler deploy --dry-run failed (${code}). Nothing has been changed.`);
  const databases = databasesOf(target).map(({ name }) => name);
  const queues = target.config.queues.producers?.map(({ queue }) => queue) ?? [];
  print(`\nA deployment of ${target.config.name} would, in this order:`);
  print(`  1. create those of these databases that are missing: ${databases.join(", ")}`);
  print(`  2. apply the migrations that they lack`);
  print(`  3. create those of these queues that are missing, and deploy the Worker: ${queues.join(", ")}`);
  print(`  4. ask the Worker for /v1/health`);
  print("Nothing has been changed.");
}

/** The environment to deploy. Throws an error that lists every fault of the configuration. */
async function checkedEnvironment({ config, environment }: Deployment, print: Print): Promise<Environment> {
  const file = basename(config);
  const all = await readEnvironments(resolve(projectRoot, config)).catch((error: Error) => {
    throw new Error(`${file}: ${error.message}\nNothing has been changed.`);
  });
  const target = all.find(({ name }) => (name ?? "") === environment);
  if (!target) {
    const known = all.flatMap(({ name }) => name ?? []).join(", ") || "none";
    const remedy = `add [env.${environment}], see docs/deploying.md. Environments of the file: ${known}`;
    throw new Error(
      `${file}: env.${environment}: there is no such environment; ${remedy}\nNothing has been changed.`,
    );
  }
  const faults = configFaults(target, all);
  if (faults.length > 0) {
    const lines = faults.map(({ place, fault, remedy }) => `${file}: ${place}: ${fault}; ${remedy}`);
    throw new Error(`${lines.join("\n")}\nNothing has been changed.`);
  }
  for (const note of configNotes(target)) print(`Note: ${note}`);
  return target;
}

type Database = Readonly<{ name: string; hasId: boolean }>;

/** The databases, the first one first. One with an id in the file exists; it may have no name there. */
function databasesOf({ config }: Environment): Database[] {
  const numberOf = (binding: string) => Number(/^DB_(\d+)$/.exec(binding)?.[1] ?? 0);
  return config.d1_databases
    .filter(({ binding }) => /^DB(_\d+)?$/.test(binding))
    .toSorted((a, b) => numberOf(a.binding) - numberOf(b.binding))
    .map(({ binding, database_name, database_id }) => ({
      name: database_name ?? binding,
      hasId: database_id !== undefined,
    }));
}

async function createDatabases(
  target: Environment,
  { shared, placement }: Deployment,
  print: Print,
): Promise<string[]> {
  const named = databasesOf(target).filter(({ hasId }) => !hasId);
  if (named.length === 0) return [];
  const listed = await wranglerStep(["d1", "list", "--json", ...shared], "Nothing has been changed.");
  const existing = namesIn(listed.stdout);
  const missing = named.map(({ name }) => name).filter((name) => !existing.has(name));
  for (const name of missing) {
    print(`Creating the database ${name} …`);
    await wranglerStep(["d1", "create", name, ...placement, ...shared], "The Worker has not been changed.");
  }
  return missing;
}

function namesIn(json: string): ReadonlySet<string> {
  try {
    const databases: { name: string }[] = JSON.parse(json.slice(json.indexOf("[")));
    return new Set(databases.map(({ name }) => name));
  } catch {
    throw new Error(`wrangler d1 list printed no list:\n${json}\nNothing has been changed.`);
  }
}

/** Migrates all databases, so that new code never meets old tables. Returns those that had something to apply. */
async function migrateDatabases(
  target: Environment,
  { shared }: Deployment,
  print: Print,
): Promise<string[]> {
  const migrated: string[] = [];
  for (const { name } of databasesOf(target)) {
    print(`Migrating the database ${name} …`);
    const args = ["d1", "migrations", "apply", name, "--remote", ...shared];
    const consequence =
      "The former code is still live. Mend this and run it again: what was applied is kept.";
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

/** Deploys the Worker and returns its address, if it has one. */
async function deployWorker({ shared, others }: Deployment, print: Print): Promise<string | undefined> {
  print("Deploying the Worker …");
  const { code, entries } = await wranglerInTerminal(["deploy", ...shared, ...others]);
  if (code !== 0)
    throw new Error(
      `wrangler deploy failed (${code}). The databases have been migrated; the former code is still live unless wrangler says otherwise above. Run it again.`,
    );
  return addressIn(entries);
}

const POLL_MS = 1_000;

/** Asks until the Worker is healthy: a new address takes a while to be known, and a first sweep up to a minute. */
async function waitForHealth(url: string | undefined, healthMs: number, print: Print): Promise<string> {
  if (url === undefined || healthMs === 0) return "not asked";
  print(`Asking ${url}/v1/health …`);
  const until = Date.now() + healthMs;
  for (;;) {
    const answer = await healthAt(url);
    if (answer.isOk) return "ok";
    if (Date.now() + POLL_MS > until)
      throw new Error(
        `The new code is live, but is not healthy after ${healthMs / 1000} s: ${answer.fault}.\n` +
          `Look at: curl -i ${url}/v1/health; npx wrangler tail. To go back: npx wrangler rollback (docs/deploying.md).`,
      );
    await new Promise((resume) => setTimeout(resume, POLL_MS));
  }
}

async function healthAt(url: string): Promise<{ isOk: boolean; fault: string }> {
  try {
    const response = await fetch(`${url}/v1/health`, { signal: AbortSignal.timeout(10_000) });
    const text = await response.text();
    return { isOk: response.ok, fault: `it answers ${response.status}: ${text.slice(0, 300)}` };
  } catch (error) {
    return { isOk: false, fault: `it does not answer (${error instanceof Error ? error.message : error})` };
  }
}
