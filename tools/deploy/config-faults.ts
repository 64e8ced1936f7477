/**
 * Faults of wrangler.toml as the configuration of a deployment: what the code needs and is not there, and what
 * two environments share although each needs its own. Checked before a deployment changes anything, because Cloudflare
 * reports these late or never: a queue has one consumer, and a second Worker simply takes it over.
 */
import type { Unstable_Config } from "wrangler";
import { bindingRules } from "../../src/core/destination-bindings.ts";
import { databaseNamesFault } from "../../src/core/placement.ts";
import { queueKindOf } from "../../src/queue-messages.ts";

/** The part of one environment's configuration that is read. */
type DeploymentConfig = Pick<
  Unstable_Config,
  | ("name" | "account_id" | "vars" | "d1_databases" | "durable_objects" | "queues" | "triggers" | "secrets")
  | ("routes" | "ratelimits" | "worker_loaders" | "services" | "r2_buckets")
>;

/** An environment of wrangler.toml; the top level of the file has no name. */
export type Environment = Readonly<{ name: string | undefined; config: DeploymentConfig }>;

/**
 * A fault: where it is, what it is, and how to mend it where that does not follow from what it is. The file is the
 * configuration file unless another is named.
 */
export type ConfigFault = Readonly<{ file?: string; place?: string; fault: string; remedy?: string }>;

/**
 * The bindings of the queues, and the word in a queue's name unless somebody gives it another. In the order of the names
 * in `QUEUE_NAMES`.
 */
export const QUEUES = {
  DELIVERIES: "deliveries",
  DRAINS: "drains",
  DEAD: "dead",
  UPKEEP: "upkeep",
} as const;
const FUNCTIONS = { FUNCTIONS: "TenantFunctions" } as const;
const OBJECTS = { GATES: "DestinationGate", INTAKE: "Intake", GROUPS: "ReceiverGroup" } as const;
const SECRETS = ["ADMIN_KEY", "MASTER_KEYS"];
const LIMITS = {
  INGEST_LIMIT: "posting",
  READ_LIMIT: "reading",
  WRITE_LIMIT: "changing",
  CHALLENGE_LIMIT: "asking for consent",
} as const;
const BUCKET = "BODIES";
const EVERY_MINUTE = ["* * * * *", "*/1 * * * *"];

/** Every fault that keeps the environment from being deployed, in the order in which to mend them. */
export function configFaults(target: Environment, all: readonly Environment[]): ConfigFault[] {
  return [
    ...databaseFaults(target),
    ...objectFaults(target),
    ...queueFaults(target),
    ...destinationBindingFaults(target),
    ...bucketFaults(target),
    ...triggerFaults(target),
    ...secretFaults(target),
    ...sharedFaults(all),
  ];
}

/** Features that the environment does without, although it may not mean to: bindings are not inherited. */
export function configNotes(environment: Environment): string[] {
  return [...limitNotes(environment), ...functionNotes(environment)];
}

function hasFunctionsIn({ config }: Environment): boolean {
  return config.durable_objects.bindings.some((object) => object.name === "FUNCTIONS");
}

/** Half of what runs code runs none. */
function functionNotes(environment: Environment): string[] {
  const { name, config } = environment;
  const objects = settingPlaceOf(name, "durable_objects.bindings");
  const loaders = settingPlaceOf(name, "worker_loaders");
  const hasFunctions = hasFunctionsIn(environment);
  const hasLoader = config.worker_loaders?.some(({ binding }) => binding === "LOADER") ?? false;
  if (hasFunctions === hasLoader) return [];
  const off = "transformations in code are refused, and those that are saved wait";
  return hasFunctions
    ? [
        `${objects} has FUNCTIONS, and there is no LOADER: ${off}; add [[${loaders}]] with binding = "LOADER".`,
      ]
    : [
        `${loaders} has LOADER, and there is no FUNCTIONS: ${off}; add { name = "FUNCTIONS", class_name = "TenantFunctions" } to ${objects}.`,
      ];
}

function limitNotes({ name, config }: Environment): string[] {
  const bound = new Set(config.ratelimits?.map((limit) => limit.name));
  return Object.entries(LIMITS)
    .filter(([binding]) => !bound.has(binding))
    .map(
      ([binding, what]) => `${settingPlaceOf(name, "ratelimits")} has no ${binding}: ${what} is not limited.`,
    );
}

/** Makes faults at one place of an environment. */
function faultsAt({ name }: Environment, key: string) {
  const place = settingPlaceOf(name, key);
  return { place, at: (fault: string, remedy: string): ConfigFault => ({ place, fault, remedy }) };
}

/** A place of the file: `d1_databases`, or `env.staging.d1_databases`. */
export function settingPlaceOf(environment: string | undefined, key: string): string {
  return environment === undefined ? key : `env.${environment}.${key}`;
}

function databaseFaults(environment: Environment): ConfigFault[] {
  const { d1_databases: databases } = environment.config;
  const { place, at } = faultsAt(environment, "d1_databases");
  const bindings = databases.map(({ binding }) => binding);
  const misnamed = databaseNamesFault(bindings.filter((binding) => /^DB_\d+$/.test(binding)));
  const unnamed = databases.filter(({ database_name, database_id }) => !database_name && !database_id);
  const names = databases.flatMap(({ database_name }) => database_name ?? []);
  const repeated = new Set(names.filter((database, i) => names.indexOf(database) < i));
  const noMain = `add [[${place}]] with binding = "DB" and a database_name of its own`;
  return [
    ...(bindings.includes("DB") ? [] : [at('no database has the binding "DB"', noMain)]),
    ...(misnamed === undefined ? [] : [at(misnamed, "number the bindings without a gap")]),
    ...unnamed.map(({ binding }) =>
      at(`the database of ${binding} has no name`, `add database_name to its [[${place}]]`),
    ),
    ...[...repeated].map((database) =>
      at(`the database "${database}" has two bindings`, "give each binding a database of its own"),
    ),
  ];
}

function objectFaults(environment: Environment): ConfigFault[] {
  const { config } = environment;
  const { at } = faultsAt(environment, "durable_objects.bindings");
  const objects = { ...OBJECTS, ...(hasFunctionsIn(environment) && FUNCTIONS) };
  return Object.entries(objects).flatMap(([binding, className]) => {
    const remedy = `add { name = "${binding}", class_name = "${className}" }`;
    const bound = config.durable_objects.bindings.find((object) => object.name === binding);
    if (!bound) return [at(`the binding ${binding} is missing`, remedy)];
    if (bound.class_name !== className)
      return [at(`${binding} is bound to the class ${bound.class_name}`, remedy)];
    if (bound.script_name === undefined || bound.script_name === config.name) return [];
    const fault = `${binding} has the objects of the Worker ${bound.script_name}`;
    return [at(fault, "remove script_name: an environment has objects of its own")];
  });
}

function queueFaults(environment: Environment): ConfigFault[] {
  const { config } = environment;
  const { producers = [], consumers = [] } = config.queues;
  const { place: producing, at: atProducers } = faultsAt(environment, "queues.producers");
  const { place: consuming, at: atConsumers } = faultsAt(environment, "queues.consumers");
  const queueOf = (binding: string) => producers.find((producer) => producer.binding === binding)?.queue;
  const dead = queueOf("DEAD");

  function faultsOf([binding, word]: [string, string]): ConfigFault[] {
    const queue = queueOf(binding);
    if (!queue) {
      const remedy = `add [[${producing}]] with binding = "${binding}" and a queue of its own, such as "${config.name}-${word}"`;
      return [atProducers(`the binding ${binding} has no queue`, remedy)];
    }
    const other = producers.find((one) => one.queue === queue && one.binding !== binding);
    if (other !== undefined) {
      const fault = `the queue "${queue}" has the bindings ${other.binding} and ${binding}`;
      return [atProducers(fault, "give each binding a queue of its own")];
    }
    const consumer = consumers.find((one) => one.queue === queue);
    // Another kind fetches its messages itself.
    if (!consumer || (consumer.type ?? "worker") !== "worker") {
      const fault = `nothing consumes the queue "${queue}"`;
      const remedy = `add [[${consuming}]] with queue = "${queue}", and settings as those of the other environments`;
      return [atConsumers(fault, remedy)];
    }
    if (binding === "DELIVERIES" && dead !== undefined && consumer.dead_letter_queue !== dead) {
      const now = consumer.dead_letter_queue ? `"${consumer.dead_letter_queue}"` : "nowhere";
      const fault = `messages of "${queue}" that failed too often go to ${now} and not to the queue of DEAD`;
      return [atConsumers(fault, `set dead_letter_queue = "${dead}"`)];
    }
    return [];
  }

  const ours: readonly (string | undefined)[] = Object.keys(QUEUES).map(queueOf);
  const others = consumers.filter(({ queue }) => !ours.includes(queue));

  /** A queue of events is the operator's own, and so is the queue of what it refuses. */
  function eventFaults({ queue, dead_letter_queue, retry_delay }: (typeof others)[number]): ConfigFault[] {
    const faults: ConfigFault[] = [];
    const remedy = `set dead_letter_queue to a queue of its own, such as "${queue}-dead"`;
    if (!dead_letter_queue)
      faults.push(atConsumers(`messages that "${queue}" refuses would be lost`, remedy));
    else if (dead_letter_queue === queue || ours.includes(dead_letter_queue))
      faults.push(atConsumers(`messages that "${queue}" refuses go to "${dead_letter_queue}"`, remedy));
    if (!retry_delay)
      faults.push(
        atConsumers(
          `"${queue}" retries at once what an invocation that died has left`,
          "set retry_delay = 30",
        ),
      );
    return faults;
  }

  const events = others.filter(({ queue }) => queueKindOf(queue) === "events").flatMap(eventFaults);
  const foreign = others
    .filter(({ queue }) => queueKindOf(queue) !== "events")
    .map(({ queue }) =>
      atConsumers(
        `"${queue}" is consumed, and is the queue of no binding`,
        `remove this consumer, or name the queue in [[${producing}]]`,
      ),
    );
  return [...Object.entries(QUEUES).flatMap(faultsOf), ...events, ...foreign];
}

/** Faults for which the Worker would answer 503, or a delivery to it 403. */
function destinationBindingFaults(environment: Environment): ConfigFault[] {
  const { name, config } = environment;
  const { DESTINATION_BINDINGS: text = "" } = config.vars ?? {};
  const { at } = faultsAt(environment, "vars");
  const bindings = faultsAt(environment, "services");
  const { rules, faults } =
    typeof text === "string" ? bindingRules(text) : { rules: [], faults: ["expected a text"] };
  const producers = (config.queues.producers ?? []).map(({ binding }) => binding);
  const services = config.services ?? [];
  const bound = [...producers, ...services.map(({ binding }) => binding)];
  const named = rules.map((rule) => rule.name);
  const remedy = 'write it as in "ORDERS: acme, globex; AUDIT: *"';
  return [
    ...faults.map((fault) => at(`DESTINATION_BINDINGS ${fault}`, remedy)),
    ...named
      .filter((binding) => !bound.includes(binding))
      .map((binding) =>
        at(
          `DESTINATION_BINDINGS names ${binding}, which is not bound`,
          `add it to [[${settingPlaceOf(name, "queues.producers")}]] or [[${bindings.place}]]`,
        ),
      ),
    ...services
      .filter(({ binding, service }) => named.includes(binding) && service === config.name)
      .map(({ binding }) =>
        bindings.at(
          `${binding} leads back to this Worker: deliveries would go round in circles`,
          `bind another Worker, or remove ${binding} from DESTINATION_BINDINGS`,
        ),
      ),
  ];
}

/** A bucket is found by its name within a jurisdiction, and what it keeps must be where the rest is. */
function bucketFaults({ name, config }: Environment): ConfigFault[] {
  const place = settingPlaceOf(name, "r2_buckets");
  const bucket = config.r2_buckets?.find(({ binding }) => binding === BUCKET);
  const wanted = config.vars?.JURISDICTION;
  if (bucket === undefined || !wanted || bucket.jurisdiction === wanted) return [];
  const now = bucket.jurisdiction === undefined ? "in none" : `in "${bucket.jurisdiction}"`;
  const fault = `the bucket of ${BUCKET} is ${now}, and JURISDICTION is "${wanted}"`;
  return [{ place, fault, remedy: `set jurisdiction = "${wanted}", with a bucket that was created there` }];
}

function triggerFaults({ name, config }: Environment): ConfigFault[] {
  if (config.triggers.crons?.some((cron) => EVERY_MINUTE.includes(cron))) return [];
  const fault = "no cron runs every minute: the sweep would never repair anything";
  return [{ place: settingPlaceOf(name, "triggers"), fault, remedy: 'set crons = ["* * * * *"]' }];
}

/** Without them wrangler deploys a Worker that answers every request with an error. */
function secretFaults({ name, config }: Environment): ConfigFault[] {
  const missing = SECRETS.filter((secret) => !config.secrets?.required?.includes(secret));
  if (missing.length === 0) return [];
  const fault = `${missing.join(" and ")} ${missing.length > 1 ? "are" : "is"} not required`;
  const remedy = `set required = ${JSON.stringify(SECRETS)}: wrangler then refuses to deploy without`;
  return [{ place: settingPlaceOf(name, "secrets"), fault, remedy }];
}

/** What may be used by one environment only. */
function ownedBy({ config }: Environment): { key: string; what: string }[] {
  const { producers = [], consumers = [] } = config.queues;
  const queues = [
    // Queues that others consume may be shared.
    ...producers.filter(({ binding }) => binding in QUEUES).map(({ queue }) => queue),
    ...consumers.flatMap(({ queue, dead_letter_queue }) => [queue, dead_letter_queue]),
  ];
  const routes = config.routes?.map((route) => (typeof route === "string" ? route : route.pattern)) ?? [];
  const buckets = config.r2_buckets?.filter(({ binding }) => binding === BUCKET) ?? [];
  return [
    { key: "name", what: "Worker", names: [config.name] },
    { key: "d1_databases", what: "database", names: config.d1_databases.map((one) => one.database_name) },
    { key: "d1_databases", what: "database_id", names: config.d1_databases.map((one) => one.database_id) },
    { key: "queues", what: "queue", names: queues },
    // What one deployment has not stored, its walk removes from the archive.
    { key: "r2_buckets", what: "bucket", names: buckets.map(({ bucket_name }) => bucket_name) },
    { key: "routes", what: "route", names: routes },
  ].flatMap(({ key, what, names }) =>
    [...new Set(names)].flatMap((name) => (name ? [{ key, what: `${what} "${name}"` }] : [])),
  );
}

function sharedFaults(all: readonly Environment[]): ConfigFault[] {
  const owners = new Map<string, string | undefined>();
  return all.flatMap((environment) =>
    ownedBy(environment).flatMap(({ key, what }) => {
      const inAccount = `${environment.config.account_id ?? ""} ${what}`;
      if (!owners.has(inAccount)) {
        owners.set(inAccount, environment.name);
        return [];
      }
      const owner = owners.get(inAccount);
      const other = owner === undefined ? "the top level" : `env.${owner}`;
      const fault = `the ${what} is that of ${other} too`;
      return [
        { place: settingPlaceOf(environment.name, key), fault, remedy: "give each environment its own" },
      ];
    }),
  );
}
