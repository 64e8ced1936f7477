/**
 * Faults of wrangler.toml as the configuration of a deployment: missing settings that the code needs, and resources
 * that two environments share although each needs its own. Checked before a deployment changes anything, because
 * Cloudflare reports these late or never: a queue has one consumer, and a second Worker simply takes it over.
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
 * A fault: where it is, what it is, and how to fix it unless that is obvious. The file is the configuration file unless
 * another is named.
 */
export type ConfigFault = Readonly<{ file?: string; place?: string; fault: string; remedy?: string }>;

/**
 * The bindings of the queues, and the word that each queue's name has by default. In the order of the names in
 * `QUEUE_NAMES`.
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

/** Every fault that prevents the environment from being deployed, in the order in which to fix them. */
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

/** Features that the environment lacks, perhaps by mistake: bindings are not inherited. */
export function configNotes(environment: Environment): string[] {
  return [...limitNotes(environment), ...functionNotes(environment)];
}

function hasFunctionsIn({ config }: Environment): boolean {
  return config.durable_objects.bindings.some((object) => object.name === "FUNCTIONS");
}

/** Functions need two bindings; one alone runs no code. */
function* functionNotes(environment: Environment) {
  const { name, config } = environment;
  const objects = settingPlaceOf(name, "durable_objects.bindings");
  const loaders = settingPlaceOf(name, "worker_loaders");
  const hasFunctions = hasFunctionsIn(environment);
  const hasLoader = config.worker_loaders?.some(({ binding }) => binding === "LOADER") ?? false;
  const off = "transformations in code are refused, and those that are saved wait";
  if (hasFunctions && !hasLoader)
    yield `${objects} has FUNCTIONS, and there is no LOADER: ${off}; add [[${loaders}]] with binding = "LOADER".`;
  if (hasLoader && !hasFunctions)
    yield `${loaders} has LOADER, and there is no FUNCTIONS: ${off}; add { name = "FUNCTIONS", class_name = "TenantFunctions" } to ${objects}.`;
}

function* limitNotes({ name, config }: Environment) {
  const bound = new Set(config.ratelimits?.map((limit) => limit.name));
  const place = settingPlaceOf(name, "ratelimits");
  for (const [binding, what] of Object.entries(LIMITS))
    if (!bound.has(binding)) yield `${place} has no ${binding}: ${what} is not limited.`;
}

function faultsAt({ name }: Environment, key: string) {
  const place = settingPlaceOf(name, key);
  return { place, at: (fault: string, remedy: string): ConfigFault => ({ place, fault, remedy }) };
}

/** A place of the file: `d1_databases`, or `env.staging.d1_databases`. */
export function settingPlaceOf(environment: string | undefined, key: string): string {
  return environment === undefined ? key : `env.${environment}.${key}`;
}

function* databaseFaults(environment: Environment) {
  const { d1_databases: databases } = environment.config;
  const { place, at } = faultsAt(environment, "d1_databases");
  const bindings = databases.map(({ binding }) => binding);
  if (!bindings.includes("DB"))
    yield at(
      'no database has the binding "DB"',
      `add [[${place}]] with binding = "DB" and a database_name of its own`,
    );
  const misnamed = databaseNamesFault(bindings.filter((binding) => /^DB_\d+$/.test(binding)));
  if (misnamed !== undefined) yield at(misnamed, "number the bindings without a gap");
  for (const { binding, database_name, database_id } of databases)
    if (!database_name && !database_id)
      yield at(`the database of ${binding} has no name`, `add database_name to its [[${place}]]`);
  const names = databases.flatMap(({ database_name }) => database_name ?? []);
  for (const database of new Set(names.filter((one, i) => names.indexOf(one) < i)))
    yield at(`the database "${database}" has two bindings`, "give each binding a database of its own");
}

function* objectFaults(environment: Environment) {
  const { config } = environment;
  const { at } = faultsAt(environment, "durable_objects.bindings");
  const objects = { ...OBJECTS, ...(hasFunctionsIn(environment) && FUNCTIONS) };
  for (const [binding, className] of Object.entries(objects)) {
    const remedy = `add { name = "${binding}", class_name = "${className}" }`;
    const bound = config.durable_objects.bindings.find((object) => object.name === binding);
    const { class_name, script_name = config.name } = bound ?? {};
    if (!bound) yield at(`the binding ${binding} is missing`, remedy);
    else if (class_name !== className) yield at(`${binding} is bound to the class ${class_name}`, remedy);
    else if (script_name !== config.name)
      yield at(
        `${binding} has the objects of the Worker ${script_name}`,
        "remove script_name: an environment has objects of its own",
      );
  }
}

function* queueFaults(environment: Environment) {
  const { producers = [], consumers = [] } = environment.config.queues;
  const { place: producing, at: atProducers } = faultsAt(environment, "queues.producers");
  const { place: consuming, at: atConsumers } = faultsAt(environment, "queues.consumers");
  const queueOf = (name: string) => producers.find(({ binding }) => binding === name)?.queue;
  const dead = queueOf("DEAD");
  for (const [binding, word] of Object.entries(QUEUES)) {
    const queue = queueOf(binding);
    const other = producers.find((one) => one.queue === queue && one.binding !== binding);
    const consumer = consumers.find((one) => one.queue === queue);
    const to = consumer?.dead_letter_queue;
    if (!queue)
      yield atProducers(
        `the binding ${binding} has no queue`,
        `add [[${producing}]] with binding = "${binding}" and a queue of its own, such as "${environment.config.name}-${word}"`,
      );
    else if (other !== undefined)
      yield atProducers(
        `the queue "${queue}" has the bindings ${other.binding} and ${binding}`,
        "give each binding a queue of its own",
      );
    // A consumer of another type fetches its messages itself.
    else if (!consumer || (consumer.type ?? "worker") !== "worker")
      yield atConsumers(
        `nothing consumes the queue "${queue}"`,
        `add [[${consuming}]] with queue = "${queue}", and settings as those of the other environments`,
      );
    else if (binding === "DELIVERIES" && dead !== undefined && to !== dead)
      yield atConsumers(
        `messages of "${queue}" that failed too often go to ${to ? `"${to}"` : "nowhere"} and not to the queue of DEAD`,
        `set dead_letter_queue = "${dead}"`,
      );
  }
  const ours: readonly (string | undefined)[] = Object.keys(QUEUES).map(queueOf);
  const others = consumers.filter(({ queue }) => !ours.includes(queue));
  const isOfEvents = ({ queue }: (typeof others)[number]) => queueKindOf(queue) === "events";
  // A queue of events belongs to the operator, and so does the queue of the messages that it refuses.
  for (const { queue, dead_letter_queue: refused, retry_delay } of others.filter(isOfEvents)) {
    const remedy = `set dead_letter_queue to a queue of its own, such as "${queue}-dead"`;
    if (!refused) yield atConsumers(`messages that "${queue}" refuses would be lost`, remedy);
    else if (refused === queue || ours.includes(refused))
      yield atConsumers(`messages that "${queue}" refuses go to "${refused}"`, remedy);
    if (!retry_delay)
      yield atConsumers(
        `"${queue}" retries messages at once after an invocation has died`,
        "set retry_delay = 30",
      );
  }
  for (const { queue } of others.filter((one) => !isOfEvents(one)))
    yield atConsumers(
      `"${queue}" is consumed, and is the queue of no binding`,
      `remove this consumer, or name the queue in [[${producing}]]`,
    );
}

/** Faults because of which the Worker would answer 503, or a delivery to it 403. */
function* destinationBindingFaults(environment: Environment) {
  const { name, config } = environment;
  const { DESTINATION_BINDINGS: text = "" } = config.vars ?? {};
  const { at } = faultsAt(environment, "vars");
  const bindings = faultsAt(environment, "services");
  const { rules, faults } =
    typeof text === "string" ? bindingRules(text) : { rules: [], faults: ["expected a text"] };
  for (const fault of faults)
    yield at(`DESTINATION_BINDINGS ${fault}`, 'write it as in "ORDERS: acme, globex; AUDIT: *"');
  const services = config.services ?? [];
  const bound = [...(config.queues.producers ?? []), ...services].map(({ binding }) => binding);
  const named = rules.map((rule) => rule.name);
  for (const binding of named)
    if (!bound.includes(binding))
      yield at(
        `DESTINATION_BINDINGS names ${binding}, which is not bound`,
        `add it to [[${settingPlaceOf(name, "queues.producers")}]] or [[${bindings.place}]]`,
      );
  for (const { binding, service } of services)
    if (named.includes(binding) && service === config.name)
      yield bindings.at(
        `${binding} leads back to this Worker: deliveries would loop`,
        `bind another Worker, or remove ${binding} from DESTINATION_BINDINGS`,
      );
}

/** A bucket is found by its name within a jurisdiction, and must be in the same one as all other data. */
function* bucketFaults(environment: Environment) {
  const { config } = environment;
  const bucket = config.r2_buckets?.find(({ binding }) => binding === BUCKET);
  const wanted = config.vars?.JURISDICTION;
  if (bucket === undefined || !wanted || bucket.jurisdiction === wanted) return;
  const now = bucket.jurisdiction === undefined ? "in none" : `in "${bucket.jurisdiction}"`;
  yield faultsAt(environment, "r2_buckets").at(
    `the bucket of ${BUCKET} is ${now}, and JURISDICTION is "${wanted}"`,
    `set jurisdiction = "${wanted}", with a bucket that was created there`,
  );
}

function* triggerFaults(environment: Environment) {
  if (!environment.config.triggers.crons?.some((cron) => EVERY_MINUTE.includes(cron)))
    yield faultsAt(environment, "triggers").at(
      "no cron runs every minute: the sweep would never repair anything",
      'set crons = ["* * * * *"]',
    );
}

/** Without these secrets, wrangler deploys a Worker that answers every request with an error. */
function* secretFaults(environment: Environment) {
  const { required } = environment.config.secrets ?? {};
  const missing = SECRETS.filter((secret) => !required?.includes(secret));
  if (missing.length > 0)
    yield faultsAt(environment, "secrets").at(
      `${missing.join(" and ")} ${missing.length > 1 ? "are" : "is"} not required`,
      `set required = ${JSON.stringify(SECRETS)}: wrangler then refuses to deploy without`,
    );
}

/** Resources that only one environment may use. */
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
    // The walk of a deployment removes from a bucket everything that it has not stored itself.
    { key: "r2_buckets", what: "bucket", names: buckets.map(({ bucket_name }) => bucket_name) },
    { key: "routes", what: "route", names: routes },
  ].flatMap(({ key, what, names }) =>
    [...new Set(names)].flatMap((name) => (name ? [{ key, what: `${what} "${name}"` }] : [])),
  );
}

function* sharedFaults(all: readonly Environment[]) {
  const owners = new Map<string, string>();
  for (const environment of all)
    for (const { key, what } of ownedBy(environment)) {
      const inAccount = `${environment.config.account_id ?? ""} ${what}`;
      const owner = owners.get(inAccount);
      if (owner !== undefined)
        yield faultsAt(environment, key).at(
          `the ${what} is also that of ${owner}`,
          "give each environment its own",
        );
      else
        owners.set(inAccount, environment.name === undefined ? "the top level" : `env.${environment.name}`);
    }
}
