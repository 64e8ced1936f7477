/** Deployments, with a wrangler that only records its calls, and an address that answers as the test wants. */
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { deploy, planDeployment } from "../../tools/deploy/pipeline.ts";
import { readDeployment } from "../../tools/deploy.ts";
import { projectRoot, readEnvironments } from "../../tools/wrangler.ts";
import { localServer } from "../support/local-server.ts";
import { MASTER_KEYS } from "../support/vault.ts";
import { fakeWrangler } from "./fake-wrangler.ts";

const toml = readFileSync(join(projectRoot, "wrangler.toml"), "utf8");
/** The environment that docs/deploying.md shows. */
const staging =
  /```toml\n(\[env\.staging\][\s\S]*?)```/.exec(
    readFileSync(join(projectRoot, "docs/deploying.md"), "utf8"),
  )?.[1] ?? "";

const directory = mkdtempSync(join(tmpdir(), "breakwater-deploy-"));
const config = join(directory, "wrangler.toml");
const secrets = join(directory, "secrets");
const SECRETS = `ADMIN_KEY=a key of sixteen characters\nMASTER_KEYS=${MASTER_KEYS}\n`;
const wrangler = fakeWrangler();
const { PATH } = process.env;
let status = 200;
/** Runs after each answer about the health. */
let afterHealth = () => {};
const server = localServer((request, response) => {
  const isHealth = request.url === "/v1/health";
  response.writeHead(isHealth ? status : 404).end(`{"status": ${status}}`);
  if (isHealth) afterHealth();
});
let url: string;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  process.env.PATH = wrangler.path;
});

afterAll(() => {
  process.env.PATH = PATH;
  server.close();
  wrangler.remove();
  rmSync(directory, { recursive: true });
});

beforeEach(() => {
  status = 200;
  afterHealth = () => {};
  writeFileSync(config, toml);
  writeFileSync(secrets, SECRETS);
  wrangler.set({ targets: [url] });
});

/** Runs a deployment; the file's name is left out of the commands. */
async function run(...args: string[]) {
  const lines: string[] = [];
  const { deployment, isDryRun } = readDeployment(["--config", config, ...args], {});
  const failure = await (isDryRun ? planDeployment : deploy)(deployment, (line) => lines.push(line)).then(
    () => undefined,
    (error: Error) => error.message,
  );
  const commands = wrangler.commands().map((command) => command.replace(` --config ${config}`, ""));
  return { commands, failure, printed: lines.join("\n") };
}

const database = (binding: string, name: string) =>
  `[[d1_databases]]\nbinding = "${binding}"\ndatabase_name = "${name}"\nmigrations_dir = "migrations"\n`;

const bucket = (table: string) => `[[${table}]]\nbinding = "BODIES"\nbucket_name = "breakwater-bodies"\n`;

const events = (settings: string) => `[[queues.consumers]]\nqueue = "shop-events"\n${settings}\n`;

describe("the steps of a deployment", () => {
  test("the first one creates the database and its tables before the Worker that needs them", async () => {
    const { commands, failure, printed } = await run("--secrets-file", secrets);
    expect(failure).toBeUndefined();
    expect(commands).toEqual([
      "d1 list --json",
      "d1 create breakwater",
      "d1 migrations apply breakwater --remote",
      `deploy --secrets-file ${secrets}`,
    ]);
    expect(printed).toContain(`Deployed breakwater:
  databases created   breakwater
  databases migrated  breakwater
  address             ${url}
  health              ok`);
  });

  test("a later one migrates the existing database before the new code is live", async () => {
    wrangler.set({ databases: ["another", "breakwater"], targets: [url] });
    const { commands, printed } = await run();
    expect(commands).toEqual(["d1 list --json", "d1 migrations apply breakwater --remote", "deploy"]);
    expect(printed).toContain("databases created   none\n  databases migrated  breakwater\n");
  });

  test("a deployment can be repeated, and then changes only the Worker", async () => {
    await run();
    const { commands, printed } = await run();
    expect(commands).toEqual(["d1 list --json", "d1 migrations apply breakwater --remote", "deploy"]);
    expect(printed).toContain("databases migrated  none: all were up to date");
  });

  test("further databases are created and migrated in turn, wherever they are in the file", async () => {
    writeFileSync(config, `${toml}\n${database("DB_2", "two")}\n${database("DB_1", "one")}`);
    wrangler.set({ databases: ["breakwater", "one"], targets: [url] });
    expect((await run("--location", "weur")).commands).toEqual([
      "d1 list --json",
      "d1 create two --location weur",
      "d1 migrations apply breakwater --remote",
      "d1 migrations apply one --remote",
      "d1 migrations apply two --remote",
      "deploy",
    ]);
  });

  test("a database that the file names by its id exists and is not searched", async () => {
    writeFileSync(config, toml.replace('database_name = "breakwater"', '$&\ndatabase_id = "0f"'));
    wrangler.set({ databases: ["breakwater"], targets: [url] });
    expect((await run()).commands).toEqual(["d1 migrations apply breakwater --remote", "deploy"]);
  });

  test("every command gets the environment, and the Worker's deployment its further flags unchanged", async () => {
    writeFileSync(config, `${toml}\n${staging}`);
    const { commands, failure } = await run("--env", "staging", "--tag", "v1", "--var=A:B");
    expect(failure).toBeUndefined();
    expect(commands).toEqual([
      "d1 list --json --env staging",
      "d1 create breakwater-staging --env staging",
      "d1 migrations apply breakwater-staging --remote --env staging",
      "deploy --env staging --tag v1 --var=A:B",
    ]);
  });

  test.each([
    ["d1 list", ["d1 list --json"], "Nothing has been changed."],
    ["d1 create", ["d1 list --json", "d1 create breakwater"], "The Worker has not been changed."],
    [
      "d1 migrations",
      ["d1 list --json", "d1 create breakwater", "d1 migrations apply breakwater --remote"],
      "The former code is still live.",
    ],
  ])("when `wrangler %s` fails, nothing more is done", async (failing, done, consequence) => {
    wrangler.set({ failing, targets: [url] });
    const { commands, failure } = await run();
    expect(commands).toEqual(done);
    expect(failure).toContain("as the test wants it");
    expect(failure).toContain(consequence);
  });

  test("when the deployment itself fails, the Worker's health is not checked", async () => {
    wrangler.set({ failing: "deploy", targets: [url] });
    const { failure, printed } = await run();
    expect(failure).toContain("wrangler deploy failed (1)");
    expect(printed).not.toContain("/v1/health");
  });

  test("a Worker that is not healthy in time is a failure with instructions to roll back", async () => {
    status = 503;
    const { failure } = await run("--health-timeout", "1");
    expect(failure).toContain("it answers 503");
    expect(failure).toContain("npx wrangler rollback");
  });

  test("a Worker that becomes healthy is awaited", async () => {
    status = 503;
    afterHealth = () => {
      status = 200;
    };
    expect((await run()).failure).toBeUndefined();
  });

  test.each([
    [["https://breakwater.me.workers.dev", "schedule: * * * * *"], "https://breakwater.me.workers.dev"],
    [["Producer for x", "hooks.example.com (custom domain)"], "https://hooks.example.com"],
    [["hooks.example.com/* (zone name: example.com)"], "https://hooks.example.com"],
    [["example.com/hooks/* (zone name: example.com)"], "none"],
    [[], "none"],
  ])("of the targets %j the address is %s", async (targets, address) => {
    wrangler.set({ targets });
    expect((await run("--health-timeout", "0")).printed).toContain(`address             ${address}`);
  });

  test("a dry run builds the Worker and prints the plan", async () => {
    const { commands, printed } = await run("--dry-run", "--tag", "v1");
    expect(commands).toEqual(["deploy --dry-run --tag v1"]);
    expect(printed).toContain("1. create those of these databases that are missing: breakwater");
    expect(printed).toContain("Nothing has been changed.");
  });
});

describe("a configuration that cannot work is refused before anything is done", () => {
  const drains = /\[\[queues\.producers\]\]\nbinding = "DRAINS"\nqueue = "breakwater-drains"\n/;
  const without = (what: RegExp | string) => toml.replace(what, "");

  test.each([
    [
      "a missing database",
      without(/\[\[d1_databases\]\][\s\S]*?"migrations"\n/),
      'd1_databases: no database has the binding "DB"; add [[d1_databases]] with binding = "DB"',
    ],
    [
      "databases out of turn",
      `${toml}\n${database("DB_2", "two")}`,
      "d1_databases: DB_2 is bound out of order; expected DB, DB_1, DB_2 and so on",
    ],
    [
      "a database without a name",
      without('database_name = "breakwater"'),
      "d1_databases: the database of DB has no",
    ],
    [
      "one database under two bindings",
      `${toml}\n${database("DB_1", "breakwater")}`,
      'd1_databases: the database "breakwater" has two bindings',
    ],
    [
      "a missing queue",
      without(drains),
      "queues.producers: the binding DRAINS has no queue; add [[queues.producers]]",
    ],
    [
      "one queue under two bindings",
      toml.replaceAll("breakwater-drains", "breakwater-deliveries"),
      'queues.producers: the queue "breakwater-deliveries" has the bindings DRAINS and DELIVERIES; give each',
    ],
    [
      "queues with other names than the Worker's configuration",
      toml.replace("[vars]", '[vars]\nQUEUE_NAMES = "a,b,c,d"'),
      'vars: QUEUE_NAMES is "a,b,c,d", and the queues are "breakwater-deliveries,breakwater-drains,breakwater-dead,breakwater-upkeep"; remove it',
    ],
    [
      "a variable that the Worker would refuse",
      toml.replace('RETENTION_DAYS = "30"', 'RETENTION_DAYS = "forever"'),
      "vars: RETENTION_DAYS expected whole days, 1 to 3650\n",
    ],
    [
      "a jurisdiction that there is not",
      toml.replace('JURISDICTION = ""', 'JURISDICTION = "europe"'),
      "vars: JURISDICTION expected one of eu, us, fedramp, or nothing\n",
    ],
    [
      "more databases for events than there are",
      toml.replace("[vars]", '[vars]\nEVENT_DATABASES = "2"'),
      "vars: EVENT_DATABASES is 2; expected at most 1, the number of bound databases\n",
    ],
    [
      "a missing consumer",
      without(/\[\[queues\.consumers\]\]\nqueue = "breakwater-drains"[\s\S]*?max_retries = 3\n/),
      'queues.consumers: nothing consumes the queue "breakwater-drains"',
    ],
    [
      "no dead-letter queue",
      without('dead_letter_queue = "breakwater-dead"'),
      'messages of "breakwater-deliveries" that failed too often go to nowhere',
    ],
    [
      "a consumer of another queue",
      `${toml}\n[[queues.consumers]]\nqueue = "other-drains"`,
      'queues.consumers: "other-drains" is consumed, and is the queue of no binding',
    ],
    [
      "a queue of events without a dead-letter queue",
      `${toml}\n${events("retry_delay = 30")}`,
      'queues.consumers: messages that "shop-events" refuses would be lost; set dead_letter_queue to a queue of its own',
    ],
    [
      "a queue of events whose dead letters are taken for deliveries",
      `${toml}\n${events('retry_delay = 30\ndead_letter_queue = "breakwater-dead"')}`,
      'queues.consumers: messages that "shop-events" refuses go to "breakwater-dead"',
    ],
    [
      "a queue of events without a retry delay",
      `${toml}\n${events('dead_letter_queue = "shop-events-dead"')}`,
      'queues.consumers: "shop-events" retries messages at once after an invocation has died; set retry_delay = 30',
    ],
    [
      "a missing Durable Object",
      without('{ name = "INTAKE", class_name = "Intake" },'),
      "durable_objects.bindings: the binding INTAKE is missing",
    ],
    [
      "another Worker's Durable Objects",
      toml.replace('class_name = "DestinationGate"', '$&, script_name = "other"'),
      "durable_objects.bindings: GATES has the objects of the Worker other; remove script_name",
    ],
    [
      "functions of another class",
      toml
        .replace("  # { name", "  { name")
        .replace('"FUNCTIONS", class_name = "TenantFunctions"', '"FUNCTIONS", class_name = "Intake"'),
      "durable_objects.bindings: FUNCTIONS is bound to the class Intake; add",
    ],
    [
      "a binding for destinations that is not bound",
      toml.replace('DESTINATION_BINDINGS = ""', 'DESTINATION_BINDINGS = "ORDERS: *"'),
      "vars: DESTINATION_BINDINGS names ORDERS, which is not bound; add it to [[queues.producers]] or [[services]]",
    ],
    [
      "bindings for destinations that cannot be read",
      toml.replace('DESTINATION_BINDINGS = ""', 'DESTINATION_BINDINGS = "DEAD: *; ORDERS"'),
      "vars: DESTINATION_BINDINGS names DEAD, one of Breakwater's own queues",
    ],
    [
      "a service for destinations that is the Worker itself",
      `${toml.replace('DESTINATION_BINDINGS = ""', 'DESTINATION_BINDINGS = "SELF: *"')}
[[services]]
binding = "SELF"
service = "breakwater"`,
      "services: SELF leads back to this Worker: deliveries would loop",
    ],
    ["no cron", without(/crons = .*/), "triggers: no cron runs every minute"],
    ["a slow cron", toml.replace('"* * * * *"', '"*/5 * * * *"'), "triggers: no cron runs every minute"],
    [
      "no secrets",
      without(/required = .*/),
      "secrets: ADMIN_KEY and MASTER_KEYS are not required; set required",
    ],
    ["what is no TOML", `${toml}\n[`, "wrangler.toml: "],
    [
      "two environments with the same queue",
      `${toml}\n${staging.replaceAll("breakwater-staging-drains", "breakwater-drains")}`,
      'env.staging.queues: the queue "breakwater-drains" is also that of the top level; give each environment its own',
    ],
    [
      "two environments with the same bucket",
      `${toml}\n${bucket("r2_buckets")}\n${staging}\n${bucket("env.staging.r2_buckets")}`,
      'env.staging.r2_buckets: the bucket "breakwater-bodies" is also that of the top level; give each environment its own',
    ],
    [
      "a bucket outside of the jurisdiction",
      `${toml.replace('JURISDICTION = ""', 'JURISDICTION = "eu"')}\n${bucket("r2_buckets")}`,
      'r2_buckets: the bucket of BODIES is in none, and JURISDICTION is "eu"; set jurisdiction = "eu"',
    ],
    [
      "a route that an environment inherits",
      `routes = ["hooks.example.com/*"]\n${toml}\n${staging}`,
      'env.staging.routes: the route "hooks.example.com/*" is also that of the top level',
    ],
    [
      "two environments with the same database",
      `${toml}\n${staging.replace('"breakwater-staging"', '"breakwater"')}`,
      'env.staging.d1_databases: the database "breakwater" is also that of the top level',
    ],
  ])("%s", async (_what, text, fault) => {
    expect(text).not.toBe(toml);
    writeFileSync(config, text);
    const { commands, failure } = await run();
    expect(commands).toEqual([]);
    expect(failure).toContain(fault);
    expect(failure).toMatch(/^wrangler\.toml: [\s\S]*\nNothing has been changed\.$/);
  });

  test("but not because of queues and services for destinations, even if two environments share them", async () => {
    const bindings = `
[[PLACEqueues.producers]]
binding = "ORDERS"
queue = "orders"

[[PLACEservices]]
binding = "BILLING"
service = "billing"
`;
    const variable = 'DESTINATION_BINDINGS = "ORDERS: acme; BILLING: *"';
    const own = staging.replace("[env.staging.vars]", `$&\n${variable}`);
    writeFileSync(
      config,
      `${toml.replace('DESTINATION_BINDINGS = ""', variable)}${bindings.replaceAll("PLACE", "")}
${own}${bindings.replaceAll("PLACE", "env.staging.")}`,
    );
    expect((await run("--dry-run")).failure).toBeUndefined();
    expect((await run("--dry-run", "--env", "staging")).failure).toBeUndefined();
  });

  test("an environment without bindings is refused with all of their names, because they are not inherited", async () => {
    writeFileSync(config, `${toml}\n[env.staging]\n`);
    const { commands, failure } = await run("--env", "staging");
    expect(commands).toEqual([]);
    const places = failure?.split("\n").map((line) => line.split(": ")[1]);
    expect(places).toEqual([
      "env.staging.d1_databases",
      ...Array(3).fill("env.staging.durable_objects.bindings"),
      ...Array(4).fill("env.staging.queues.producers"),
      "env.staging.secrets",
      undefined,
    ]);
  });

  test("but a queue of events without a binding may be consumed", async () => {
    const settings = 'retry_delay = 30\ndead_letter_queue = "shop-events-dead"';
    writeFileSync(config, `${toml}\n${events(settings)}`);
    expect((await run("--health-timeout", "0")).failure).toBeUndefined();
  });

  test("an environment that is missing from the file is refused", async () => {
    expect((await run("--env", "stagin")).failure).toContain("wrangler.toml: env.stagin: there is no such");
  });

  test("environments in different accounts may use the same names", async () => {
    const text = staging.replaceAll(/breakwater-staging(-\w+)?"/g, 'breakwater$1"');
    writeFileSync(config, `${toml}\n${text.replace("[env.staging]", '$&\naccount_id = "other"')}`);
    const { failure } = await run("--env", "staging", "--health-timeout", "0");
    expect(failure).toBeUndefined();
  });
});

describe("queues and their names", () => {
  const renamed = toml
    .replaceAll("breakwater-deliveries", "first")
    .replaceAll("breakwater-drains", "second")
    .replaceAll("breakwater-dead", "third")
    .replaceAll("breakwater-upkeep", "fourth");

  test("may be arbitrary: the Worker gets those whose words do not show the purpose", async () => {
    writeFileSync(config, renamed);
    wrangler.set({ databases: ["breakwater"], targets: [url] });
    const { commands, failure } = await run("--tag", "v1");
    expect(failure).toBeUndefined();
    expect(commands.at(-1)).toBe("deploy --tag v1 --var=QUEUE_NAMES:first,second,third,fourth");
    expect((await run("--dry-run")).commands).toEqual([
      "deploy --dry-run --var=QUEUE_NAMES:first,second,third,fourth",
    ]);
  });

  test("are also passed if their words mislead", async () => {
    writeFileSync(config, toml.replaceAll("breakwater-deliveries", "acme-events"));
    const names = "acme-events,breakwater-drains,breakwater-dead,breakwater-upkeep";
    expect((await run()).commands.at(-1)).toBe(`deploy --var=QUEUE_NAMES:${names}`);
  });

  test("need not be passed if the file has them", async () => {
    writeFileSync(config, renamed.replace("[vars]", '[vars]\nQUEUE_NAMES = "first,second,third,fourth"'));
    expect((await run()).failure).toBeUndefined();
  });
});

describe("the hosts under which the Worker is reached", () => {
  const routes = '[[routes]]\npattern = "hooks.example.com"\ncustom_domain = true\n';
  const onWorkersDev = "breakwater.acme.workers.dev";
  const found = `${onWorkersDev},*-${onWorkersDev}`;

  test("are passed to it: those of routes at once, that on workers.dev and its previews' by a second deployment", async () => {
    writeFileSync(config, `${toml}\n${routes}`);
    wrangler.set({ databases: ["breakwater"], targets: [url, `https://${onWorkersDev}`] });
    const { commands, failure, printed } = await run("--tag", "v1");
    expect(failure).toBeUndefined();
    expect(commands.slice(-2)).toEqual([
      "deploy --tag v1 --var=OWN_HOSTS:hooks.example.com",
      `deploy --tag v1 --var=OWN_HOSTS:hooks.example.com,${found}`,
    ]);
    expect(printed).toContain(`set OWN_HOSTS = "hooks.example.com,${found}"`);
  });

  test("are not passed, nor is it deployed twice, if the file names them", async () => {
    writeFileSync(config, toml.replace('OWN_HOSTS = ""', `OWN_HOSTS = "${found}"`));
    wrangler.set({ databases: ["breakwater"], targets: [`https://${onWorkersDev}`] });
    expect((await run("--health-timeout", "0")).commands.filter((one) => one.startsWith("deploy"))).toEqual([
      "deploy",
    ]);
  });

  test("follow those of the file, whose first is used in links, and include those of route patterns", async () => {
    const route = '[[routes]]\npattern = "*example.org/hooks/*"\nzone_name = "example.org"\n';
    writeFileSync(
      config,
      `${toml.replace('OWN_HOSTS = ""', 'OWN_HOSTS = "webhooks.example.org"')}\n${route}`,
    );
    expect((await run()).commands.at(-1)).toBe("deploy --var=OWN_HOSTS:webhooks.example.org,*.example.org");
  });
});

test("databases are created in the jurisdiction of the Durable Objects", async () => {
  writeFileSync(config, toml.replace('JURISDICTION = ""', 'JURISDICTION = "eu"'));
  expect((await run()).commands).toContain("d1 create breakwater --jurisdiction eu");
});

describe("secrets that the Worker would refuse are refused before anything is done", () => {
  const key = MASTER_KEYS.split(":")[1];

  test.each([
    [
      "a mistyped master key",
      SECRETS.replace(MASTER_KEYS, MASTER_KEYS.slice(0, -2)),
      "secrets: MASTER_KEYS expected id:base64 of 32 bytes as key number 1",
    ],
    [
      "a master key without an id",
      SECRETS.replace(MASTER_KEYS, key ?? ""),
      "secrets: MASTER_KEYS expected id:base64 of 32 bytes as key number 1",
    ],
    ["empty master keys", "MASTER_KEYS=", "secrets: MASTER_KEYS expected at least one id:base64"],
    [
      "a short admin key, in JSON",
      JSON.stringify({ ADMIN_KEY: "s3cret", MASTER_KEYS }),
      "secrets: ADMIN_KEY is too short: at least 16 characters",
    ],
    ["an empty file", "", "secrets: there are no secrets; expected a line NAME=value for each"],
  ])("%s", async (_what, text, line) => {
    writeFileSync(secrets, text);
    const { commands, failure } = await run("--secrets-file", secrets);
    expect(failure).toBe(`${line}\nNothing has been changed.`);
    expect(commands).toEqual([]);
    expect(failure).not.toContain("s3cret");
    expect(failure).not.toContain((key ?? "").slice(0, 8));
  });

  test("a missing file is refused", async () => {
    const { commands, failure } = await run("--secrets-file", join(directory, ".nothing"));
    expect(failure).toBe(
      ".nothing: there is no such file; expected the secrets ADMIN_KEY and MASTER_KEYS, a line NAME=value for each\nNothing has been changed.",
    );
    expect(commands).toEqual([]);
  });

  test("one of them may be replaced alone", async () => {
    writeFileSync(secrets, "ADMIN_KEY=a key of sixteen characters");
    expect((await run("--secrets-file", secrets)).failure).toBeUndefined();
  });
});

describe("a database that cannot be migrated is refused before anything is done", () => {
  const migrations = readdirSync(join(projectRoot, "migrations")).filter((name) => name.endsWith(".sql"));
  const own = migrations.toSorted();
  const tables = ["d1_migrations", "sqlite_sequence", "_cf_METADATA", "bundles"];

  const deployOn = (contents: { tables: readonly string[]; applied: readonly string[] }) => {
    wrangler.set({ databases: ["breakwater"], contents: { breakwater: contents }, targets: [url] });
    return run();
  };

  test.each([
    [
      "one of 0.1.0",
      { tables, applied: ["0000_spine.sql"] },
      "is one of 0.1.0, whose tables cannot be migrated; give the binding another database_name; the deployment creates it. To copy its destinations, see docs/deploying.md#from-010",
    ],
    [
      "one that begins with an unknown migration",
      { tables, applied: ["0000_theirs.sql"] },
      `was made by 0000_theirs.sql, which this version cannot upgrade: it begins with ${own[0]}; give the binding another database_name; the deployment creates it, or deploy the version that made it`,
    ],
    [
      "one with tables of somebody else",
      { tables: ["users", "posts", "_cf_KV"], applied: [] },
      "has tables (users, posts) and no record of migrations: it is not Breakwater's; give the binding another database_name; the deployment creates it",
    ],
    [
      "one of another branch",
      { tables, applied: [...own.slice(0, 1), "0001_theirs.sql"] },
      own.length > 1
        ? `has 0001_theirs.sql, which this version does not know, and lacks ${own.slice(1).join(", ")}; deploy a version that has all of them`
        : undefined,
    ],
  ])("%s", async (_what, contents, line) => {
    const { commands, failure, printed } = await deployOn(contents);
    if (line === undefined) return expect(printed).toContain("0001_theirs.sql");
    expect(failure).toBe(
      `wrangler.toml: d1_databases: the database "breakwater" ${line}\nNothing has been changed.`,
    );
    expect(commands).toEqual(["d1 list --json"]);
  });

  test.each([
    ["an empty one", { tables: ["_cf_KV"], applied: [] }],
    ["one with this version's migrations", { tables, applied: own }],
    ["one that lacks the last of them", { tables, applied: own.slice(0, 1) }],
  ])("but %s is migrated", async (_what, contents) => {
    const { commands, failure } = await deployOn(contents);
    expect(failure).toBeUndefined();
    expect(commands).toContain("d1 migrations apply breakwater --remote");
  });

  test("but one of a later version stays as it is, because the former code works on new tables", async () => {
    const { failure, printed } = await deployOn({ tables, applied: [...own, "9999_later.sql"] });
    expect(failure).toBeUndefined();
    expect(printed).toContain(
      'Note: the database "breakwater" has migrations of a later version, which stay: 9999_later.sql',
    );
  });
});

test("the example of a second environment has everything that the top level has, under its own names", async () => {
  writeFileSync(config, `${toml}\n${staging}`);
  const [top, second] = (await readEnvironments(config)).map(({ config }) => config);
  const inStaging = JSON.parse(
    JSON.stringify([top?.queues, top?.d1_databases]).replaceAll(
      /"breakwater(-\w+)?"/g,
      '"breakwater-staging$1"',
    ),
  );
  expect([second?.queues, second?.d1_databases]).toEqual(inStaging);
  expect(second?.durable_objects).toEqual(top?.durable_objects);
  expect(second?.secrets).toEqual(top?.secrets);
  expect(second?.ratelimits?.map(({ name }) => name)).toEqual(top?.ratelimits?.map(({ name }) => name));
});

describe("staging and production side by side", () => {
  const production = staging.replaceAll("staging", "production").replaceAll('"100', '"200');

  test.each(["staging", "production"])("a dry run of %s plans with what is its own", async (name) => {
    writeFileSync(config, `${toml}\n${staging}\n${production}`);
    const { commands, failure, printed } = await run("--dry-run", "--env", name);
    expect(failure).toBeUndefined();
    expect(commands).toEqual([`deploy --dry-run --env ${name}`]);
    const own = `breakwater-${name}`;
    expect(printed).toContain(`A deployment of ${own} would, in this order:`);
    expect(printed).toContain(`those of these databases that are missing: ${own}\n`);
    expect(printed).toContain(
      `deploy the Worker: ${own}-deliveries, ${own}-drains, ${own}-upkeep, ${own}-dead\n`,
    );
    expect(printed).not.toContain("Note:");
  });
});

test("a deployment without rate limits succeeds, and says that nothing is limited", async () => {
  writeFileSync(config, toml.replace(/\[\[ratelimits\]\]\nname = "INGEST_LIMIT"[^[]*/, ""));
  const { failure, printed } = await run();
  expect(failure).toBeUndefined();
  expect(printed).toContain("Note: ratelimits has no INGEST_LIMIT: posting is not limited.");
});

test.each([
  [
    toml.replace("  # { name", "  { name"),
    'Note: durable_objects.bindings has FUNCTIONS, and there is no LOADER: transformations in code are refused, and those that are saved wait; add [[worker_loaders]] with binding = "LOADER".',
  ],
  [
    toml.replace('# [[worker_loaders]]\n# binding = "LOADER"', '[[worker_loaders]]\nbinding = "LOADER"'),
    'Note: worker_loaders has LOADER, and there is no FUNCTIONS: transformations in code are refused, and those that are saved wait; add { name = "FUNCTIONS", class_name = "TenantFunctions" } to durable_objects.bindings.',
  ],
])("a deployment with half of the bindings for functions succeeds, and says what is missing (%#)", async (text, note) => {
  expect(text).not.toBe(toml);
  writeFileSync(config, text);
  const { failure, printed } = await run("--dry-run");
  expect(failure).toBeUndefined();
  expect(printed).toContain(note);
});

describe("the command line", () => {
  const read = (...args: string[]) => readDeployment(args, {});

  test("separates flags of every command from those of the Worker's deployment only", () => {
    const { deployment, isDryRun } = read(
      "-e",
      "staging",
      "--minify",
      "--tag",
      "a b",
      "--dry-run",
      "-c=x.toml",
    );
    expect(isDryRun).toBe(true);
    expect(deployment).toMatchObject({ config: "x.toml", environment: "staging" });
    expect(deployment.shared).toEqual(["--env", "staging", "--config", "x.toml"]);
    expect(deployment.others).toEqual(["--minify", "--tag", "a b"]);
  });

  test("uses the environment of CLOUDFLARE_ENV unless a flag names another", () => {
    const environment = { CLOUDFLARE_ENV: "production" };
    expect(readDeployment([], environment).deployment.environment).toBe("production");
    expect(readDeployment(["--env", "staging"], environment).deployment.environment).toBe("staging");
  });

  test.each([
    [["--env"], "--env needs a value"],
    [["--dryrun"], "Unknown flag: --dryrun"],
    [["--tag", "a", "--no-minfy"], "Unknown flag: --no-minfy"],
    [["--dry-run=no"], "--dry-run takes no value"],
    [["staging"], "Unexpected argument: staging"],
    [["--tag", "a", "--dry-run", "staging"], "Unexpected argument: staging"],
    [["--health-timeout", "soon"], "--health-timeout needs a number of seconds"],
    [["--cwd", "/"], "--cwd does not work here"],
    [["--jurisdiction", "eu"], "--jurisdiction does not work here; set JURISDICTION"],
  ])("reports the mistake in %j: %s", (args, message) => {
    expect(() => read(...args)).toThrow(message);
  });

  test.each([
    [{ npm_config_env: "staging" }, "--env"],
    [{ npm_config_dry_run: "true" }, "--dry-run"],
    [{ npm_config_bundle: "" }, "--bundle"],
  ])("what npm keeps of a command line is not left out in silence: %j", (environment, flag) => {
    expect(() => readDeployment([], environment)).toThrow(`npm run deploy -- ${flag}`);
  });

  test("npm's own settings are none of the script's flags", () => {
    const { deployment } = readDeployment([], { npm_config_location: "user", npm_config_tag: "next" });
    expect(deployment.location).toBeUndefined();
  });

  test.each([
    [["--dry-run"]],
    [["--env", "staging"]],
    [["--env=staging"]],
  ])("npm run deploy %j, without -- before the flags, deploys nothing", async (flags) => {
    const script = join(projectRoot, "tools/deploy.ts");
    const manifest = { scripts: { deploy: `"${process.execPath}" "${script}"` } };
    writeFileSync(join(directory, "package.json"), JSON.stringify(manifest));
    const env = { ...process.env, npm_config_offline: "true" };
    const run = promisify(execFile)("npm", ["run", "deploy", ...flags], { cwd: directory, env });
    await expect(run).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining("npm took --") });
    expect(wrangler.commands()).toEqual([]);
  });

  const cli = async (...args: string[]) => {
    const script = join(projectRoot, "tools/deploy.ts");
    const run = promisify(execFile)(process.execPath, [script, ...args], { cwd: projectRoot });
    return await run.then(
      ({ stdout }) => ({ code: 0, stdout, stderr: "" }),
      ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
    );
  };

  test("exits with 0 after a deployment, 1 after a fault and 2 after a mistake", async () => {
    writeFileSync(config, toml);
    expect(await cli("--config", config)).toMatchObject({ code: 0 });
    expect(wrangler.commands()).toHaveLength(4);
    writeFileSync(config, toml.replace(/crons = .*/, ""));
    const refused = await cli("--config", config);
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toMatch(/^wrangler\.toml: triggers: no cron/);
    expect(await cli("--env")).toMatchObject({ code: 2 });
    expect(wrangler.commands()).toEqual([]);
  });
});
