/**
 * A deployment, step by step: check configuration, secrets and databases, create the databases that are missing,
 * migrate every database, deploy the Worker, check its health. Each step is safe to repeat, and a failure stops before
 * the next one.
 *
 * The databases are created here and not by `wrangler deploy`, so that their tables are there before the code that
 * needs them, even in a database that is added later. The queues are left to `wrangler deploy`, which creates each
 * queue that a producer is bound to, the dead-letter queue among them.
 */
import { basename, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { addressIn, projectRoot, readEnvironments, targetsIn, wranglerInTerminal } from "../wrangler.ts";
import { type ConfigFault, configFaults, configNotes, type Environment } from "./config-faults.ts";
import { createDatabases, databaseStates, databasesOf, migrateDatabases } from "./databases.ts";
import { deployedVariables, variableFaults } from "./variable-faults.ts";

export type Deployment = Readonly<{
  /** The configuration file, from the root of the project. */
  config: string;
  /** The environment of that file; empty: its top level. */
  environment: string;
  /** Flags that every command of wrangler gets: which file, environment, account. */
  shared: readonly string[];
  others: readonly string[];
  /** A file with secrets to set, from the root of the project. */
  secretsFile?: string | undefined;
  /** The location near which databases are created. */
  location?: string | undefined;
  /** How long the Worker may take until it is healthy; 0: no check. */
  healthMs: number;
}>;

type Print = (line: string) => void;

/** Deploys, and prints what it does. Rejects when a step fails; the error says what has been done and how to continue. */
export async function deploy(deployment: Deployment, print: Print): Promise<void> {
  const target = await checkedEnvironment(deployment, print);
  const { shared } = deployment;
  const { missing, faults, notes } = await databaseStates(target, shared);
  refuse(faults, deployment);
  for (const note of notes) print(`Note: ${note}`);
  await createDatabases(missing, placementOf(target, deployment), shared, print);
  const migrated = await migrateDatabases(target, shared, print);
  const url = await deployWorker(target, deployment, print);
  const health = await waitForHealth(url, deployment.healthMs, print);
  print(`\nDeployed ${target.config.name}:`);
  print(`  databases created   ${missing.join(", ") || "none"}`);
  print(`  databases migrated  ${migrated.join(", ") || "none: all were up to date"}`);
  print(`  address             ${url ?? "none: there is neither workers_dev nor a route"}`);
  print(`  health              ${health}`);
}

/** Checks the configuration, has wrangler build the Worker, and prints what a deployment would do. Changes nothing. */
export async function planDeployment(deployment: Deployment, print: Print): Promise<void> {
  const target = await checkedEnvironment(deployment, print);
  const { code } = await wranglerInTerminal(["deploy", "--dry-run", ...workerFlags(target, deployment)]);
  if (code !== 0) throw new Error(`wrangler deploy --dry-run failed (${code}). Nothing has been changed.`);
  const databases = databasesOf(target).map(({ name }) => name);
  const queues = target.config.queues.producers?.map(({ queue }) => queue) ?? [];
  print(`\nA deployment of ${target.config.name} would, in this order:`);
  print(`  1. create those of these databases that are missing: ${databases.join(", ")}`);
  print(`  2. apply the migrations that they lack`);
  print(`  3. create those of these queues that are missing, and deploy the Worker: ${queues.join(", ")}`);
  print(`  4. check /v1/health of the Worker`);
  print("Nothing has been changed.");
}

/** The environment to deploy. Throws an error that lists every fault of the configuration. */
async function checkedEnvironment(deployment: Deployment, print: Print): Promise<Environment> {
  const { config, environment, secretsFile } = deployment;
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
  const secrets = secretsFile === undefined ? undefined : resolve(projectRoot, secretsFile);
  refuse([...configFaults(target, all), ...variableFaults(target, secrets)], deployment);
  for (const note of configNotes(target)) print(`Note: ${note}`);
  return target;
}

/** Throws an error that has a line for each fault, if there is one. */
function refuse(faults: readonly ConfigFault[], { config }: Deployment): void {
  if (faults.length === 0) return;
  const lines = faults.map(({ file = basename(config), place, fault, remedy }) => {
    const where = place === undefined ? file : `${file}: ${place}`;
    return `${where}: ${fault}${remedy === undefined ? "" : `; ${remedy}`}`;
  });
  throw new Error(`${lines.join("\n")}\nNothing has been changed.`);
}

/** Flags for creating a database: it is in the same jurisdiction as the Durable Objects. */
function placementOf({ config }: Environment, { location }: Deployment): string[] {
  const jurisdiction = config.vars?.JURISDICTION;
  return [
    ...(location === undefined ? [] : ["--location", location]),
    ...(jurisdiction ? ["--jurisdiction", String(jurisdiction)] : []),
  ];
}

function workerFlags(
  target: Environment,
  { shared, others, secretsFile }: Deployment,
  targets: readonly string[] = [],
): string[] {
  return [
    ...shared,
    ...(secretsFile === undefined ? [] : ["--secrets-file", secretsFile]),
    ...others,
    ...Object.entries(deployedVariables(target, targets)).map(([name, value]) => `--var=${name}:${value}`),
  ];
}

/**
 * Deploys the Worker and returns its address, if it has one. Where Cloudflare then reports a host that the Worker has not
 * been configured with, the one on workers.dev, the Worker is deployed again with it.
 */
async function deployWorker(target: Environment, deployment: Deployment, print: Print) {
  print("Deploying the Worker …");
  const flags = workerFlags(target, deployment);
  const entries = await deployWith(flags);
  const known = workerFlags(target, deployment, targetsIn(entries));
  if (known.join() === flags.join()) return addressIn(entries);
  const { OWN_HOSTS } = deployedVariables(target, targetsIn(entries));
  print(`Deploying it again with its own hosts. To deploy once, set OWN_HOSTS = "${OWN_HOSTS}"`);
  return addressIn(await deployWith(known));
}

async function deployWith(flags: readonly string[]): Promise<readonly unknown[]> {
  const { code, entries } = await wranglerInTerminal(["deploy", ...flags]);
  if (code !== 0)
    throw new Error(
      `wrangler deploy failed (${code}). The databases have been migrated; the former code is still live unless wrangler says otherwise above. Run it again.`,
    );
  return entries;
}

const POLL_MS = 1_000;

/** Polls until the Worker is healthy: a new address takes a while to be known, and a first sweep up to a minute. */
async function waitForHealth(url: string | undefined, healthMs: number, print: Print): Promise<string> {
  if (url === undefined || healthMs === 0) return "not checked";
  print(`Checking ${url}/v1/health …`);
  const until = Date.now() + healthMs;
  for (;;) {
    const answer = await healthAt(url);
    if (answer.isOk) return "ok";
    if (Date.now() + POLL_MS > until)
      throw new Error(
        `The new code is live, but is not healthy after ${healthMs / 1000} s: ${answer.fault}.\n` +
          `Check: curl -i ${url}/v1/health; npx wrangler tail. To go back: npx wrangler rollback (docs/deploying.md).`,
      );
    await sleep(POLL_MS);
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
