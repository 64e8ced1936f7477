/**
 * The variables and secrets of a deployment, read as the Worker will read them: a mistake that it would answer 503 for is
 * found before it is live. Faults name the variable and what is expected, never a secret's value.
 */

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { parseEnv } from "node:util";
import { Misconfiguration, parseConfig } from "../../src/config.ts";
import { isJsonObject, parsedJson } from "../../src/core/json-value.ts";
import { queueKindOf } from "../../src/queue-messages.ts";
import { type ConfigFault, type Environment, QUEUES, settingPlaceOf } from "./config-faults.ts";
import { allOwnHosts, ownHostsOf } from "./own-hosts.ts";

/** Stand-ins for secrets that are presumably set already. */
const PRESUMED = {
  ADMIN_KEY: "one that the Worker has",
  MASTER_KEYS: `kept:${Buffer.alloc(32).toString("base64")}`,
};

/**
 * Variables that the Worker would refuse to work with.
 * @param secretsFile the path of a file as wrangler takes it, JSON or dotenv; absent: the Worker keeps its secrets
 */
export function variableFaults({ name, config }: Environment, secretsFile?: string): ConfigFault[] {
  const secrets = secretsFile === undefined ? {} : secretsIn(secretsFile);
  if (typeof secrets === "string") return [{ ...inFile(secretsFile ?? ""), fault: secrets }];
  // The same number of databases, under correct names: wrong names are reported as faults of the bindings.
  const databases = config.d1_databases.map((_, i) => [i === 0 ? "DB" : `DB_${i}`, {}]);
  const env = { ...Object.fromEntries(databases), ...config.vars, ...PRESUMED, ...secrets };
  const place = settingPlaceOf(name, "vars");
  return [
    ...faultsOf(env).map((fault) => {
      const [variable = ""] = fault.split(" ");
      return { ...(variable in secrets ? inFile(secretsFile ?? "") : { place }), fault };
    }),
    ...queueNameFaults({ name, config }),
  ];
}

/** The place of a fault in a file without sections. */
function inFile(file: string) {
  return { file: basename(file) };
}

function faultsOf(env: object): readonly string[] {
  try {
    parseConfig(env);
    return [];
  } catch (error) {
    if (error instanceof Misconfiguration) return error.faults;
    throw error;
  }
}

/** The secrets of the file, or the fault of the file as a whole. */
function secretsIn(path: string): Readonly<Record<string, unknown>> | string {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return "there is no such file; expected the secrets ADMIN_KEY and MASTER_KEYS, a line NAME=value for each";
  }
  const json = parsedJson(text);
  const secrets = isJsonObject(json) ? json : parseEnv(text);
  return Object.keys(secrets).length > 0
    ? secrets
    : "there are no secrets; expected a line NAME=value for each";
}

/** The names of the queues in the order of their bindings; undefined where one is missing. */
function queueNames({ config }: Environment): string | undefined {
  const names = Object.keys(QUEUES).map(
    (name) => config.queues.producers?.find(({ binding }) => binding === name)?.queue,
  );
  return names.includes(undefined) ? undefined : names.join(",");
}

function queueNameFaults(target: Environment): ConfigFault[] {
  const given = target.config.vars?.QUEUE_NAMES;
  const names = queueNames(target);
  if (!given || names === undefined || given === names) return [];
  const fault = `QUEUE_NAMES is "${given}", and the queues are "${names}"`;
  return [{ place: settingPlaceOf(target.name, "vars"), fault, remedy: "remove it: the deployment sets it" }];
}

/**
 * The variables that the deployment sets: the names of its queues, where the words in them do not say what they are for, and
 * the hosts under which it is reached, where the file does not name all of them.
 * @param targets what a deployment has reported to have been deployed to
 */
export function deployedVariables(
  target: Environment,
  targets: readonly string[] = [],
): Readonly<Record<string, string>> {
  const names = queueNames(target);
  const isPlain =
    names?.split(",").every((name, i) => queueKindOf(name) === Object.values(QUEUES)[i]) ?? true;
  const [named, found] = [ownHostsOf(target.config.vars?.OWN_HOSTS), allOwnHosts(target.config, targets)];
  return {
    ...(!isPlain && names !== undefined && { QUEUE_NAMES: names }),
    ...(found.length > named.length && { OWN_HOSTS: found.join(",") }),
  };
}
