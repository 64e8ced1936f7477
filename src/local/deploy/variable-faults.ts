/**
 * The variables and secrets of a deployment, read as the Worker will read them: a mistake that it would answer 503 for is
 * found before it is live. Faults name the variable and what is expected, never a secret's value.
 */
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { parseEnv } from "node:util";
import { Misconfiguration, parseConfig } from "../../config.ts";
import { namesDeadQueue } from "../../queue-messages.ts";
import { type ConfigFault, type Environment, placeOf } from "./config-faults.ts";

/** Secrets that are there already, as far as anybody can tell from here. */
const KEPT = {
  ADMIN_KEY: "one that the Worker has",
  MASTER_KEYS: `kept:${Buffer.alloc(32).toString("base64")}`,
};

/**
 * What the Worker would refuse to work with.
 * @param secretsFile the path of a file as wrangler takes it, JSON or dotenv; absent: the Worker keeps its secrets
 */
export function variableFaults({ name, config }: Environment, secretsFile?: string): ConfigFault[] {
  const secrets = secretsFile === undefined ? {} : secretsIn(secretsFile);
  if (typeof secrets === "string") return [{ ...inFile(secretsFile ?? ""), fault: secrets }];
  // As many as there are, under right names: wrong ones are faults of the bindings.
  const databases = config.d1_databases.map((_, i) => [i === 0 ? "DB" : `DB_${i}`, {}]);
  const env = { ...Object.fromEntries(databases), ...config.vars, ...KEPT, ...secrets };
  const place = placeOf(name, "vars");
  return [
    ...faultsOf(env).map((fault) => {
      const [variable = ""] = fault.split(" ");
      return { ...(variable in secrets ? inFile(secretsFile ?? "") : { place }), fault };
    }),
    ...deadQueueFaults({ name, config }),
  ];
}

/** A file that has no places. */
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

/** The secrets of the file, or what is wrong with it as a whole. */
function secretsIn(path: string): Readonly<Record<string, unknown>> | string {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return "there is no such file; expected the secrets ADMIN_KEY and MASTER_KEYS, a line NAME=value for each";
  }
  const secrets = jsonOf(text) ?? parseEnv(text);
  return Object.keys(secrets).length > 0
    ? secrets
    : "there are no secrets; expected a line NAME=value for each";
}

function jsonOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

function deadQueueFaults({ name, config }: Environment): ConfigFault[] {
  const given = config.vars?.DEAD_QUEUE;
  const dead = queueOfDead({ name, config });
  if (!given || dead === undefined || given === dead) return [];
  const fault = `DEAD_QUEUE is "${given}", and the queue of DEAD is "${dead}"`;
  return [{ place: placeOf(name, "vars"), fault, remedy: "remove DEAD_QUEUE: the deployment sets it" }];
}

function queueOfDead({ config }: Environment): string | undefined {
  return config.queues.producers?.find(({ binding }) => binding === "DEAD")?.queue;
}

/** The variables that the Worker needs to be told by the deployment: the dead-letter queue, if names do not tell it. */
export function toldVariables(target: Environment): Readonly<Record<string, string>> {
  const { producers = [] } = target.config.queues;
  const tells = producers.every(({ binding, queue = "" }) => namesDeadQueue(queue) === (binding === "DEAD"));
  const dead = queueOfDead(target);
  return tells || dead === undefined ? {} : { DEAD_QUEUE: dead };
}
