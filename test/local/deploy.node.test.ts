/** Deployments, with a wrangler that only records what it is asked, and an address that answers as the test wants. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { deploy, planDeployment } from "../../src/local/deploy/pipeline.ts";
import { readDeployment } from "../../src/local/deploy.ts";
import { projectRoot, readEnvironments } from "../../src/local/wrangler.ts";
import { fakeWrangler } from "./fake-wrangler.ts";

const toml = readFileSync(join(projectRoot, "wrangler.toml"), "utf8");
/** The environment that docs/deploying.md shows. */
const staging =
  /```toml\n(\[env\.staging\][\s\S]*?)```/.exec(
    readFileSync(join(projectRoot, "docs/deploying.md"), "utf8"),
  )?.[1] ?? "";

const directory = mkdtempSync(join(tmpdir(), "breakwater-deploy-"));
const config = join(directory, "wrangler.toml");
const wrangler = fakeWrangler();
const { PATH } = process.env;
let status = 200;
const server = createServer((request, response) => {
  response.writeHead(request.url === "/v1/health" ? status : 404).end(`{"status": ${status}}`);
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
  writeFileSync(config, toml);
  wrangler.set({ targets: [url] });
});

/** Runs a deployment; the file's name is left out of the commands. */
async function run(...args: string[]) {
  const lines: string[] = [];
  const { deployment, isDryRun } = readDeployment(["--config", config, ...args], "");
  const failure = await (isDryRun ? planDeployment : deploy)(deployment, (line) => lines.push(line)).then(
    () => undefined,
    (error: Error) => error.message,
  );
  const commands = wrangler.commands().map((command) => command.replace(` --config ${config}`, ""));
  return { commands, failure, printed: lines.join("\n") };
}

const database = (binding: string, name: string) =>
  `[[d1_databases]]\nbinding = "${binding}"\ndatabase_name = "${name}"\nmigrations_dir = "migrations"\n`;

describe("the steps of a deployment", () => {
  test("the first one creates the database and its tables before the Worker that needs them", async () => {
    const { commands, failure, printed } = await run("--secrets-file", ".secrets");
    expect(failure).toBeUndefined();
    expect(commands).toEqual([
      "d1 list --json",
      "d1 create breakwater",
      "d1 migrations apply breakwater --remote",
      "deploy --secrets-file .secrets",
    ]);
    expect(printed).toContain(`Deployed breakwater:
  databases created   breakwater
  databases migrated  breakwater
  address             ${url}
  health              ok`);
  });

  test("a later one migrates the database that is there before the new code is live", async () => {
    wrangler.set({ databases: ["another", "breakwater"], targets: [url] });
    const { commands, printed } = await run();
    expect(commands).toEqual(["d1 list --json", "d1 migrations apply breakwater --remote", "deploy"]);
    expect(printed).toContain("databases created   none\n  databases migrated  breakwater\n");
  });

  test("it can be repeated, and then changes nothing but the Worker", async () => {
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

  test("a database that the file names by its id exists and is not looked for", async () => {
    writeFileSync(config, toml.replace('database_name = "breakwater"', '$&\ndatabase_id = "0f"'));
    wrangler.set({ databases: ["breakwater"], targets: [url] });
    expect((await run()).commands).toEqual(["d1 migrations apply breakwater --remote", "deploy"]);
  });

  test("every command gets the environment, and the Worker its further flags as they were given", async () => {
    writeFileSync(config, `${toml}\n${staging}`);
    const { commands, failure } = await run(
      "--env",
      "staging",
      "--tag",
      "v1",
      "--var=A:B",
      "--jurisdiction=eu",
    );
    expect(failure).toBeUndefined();
    expect(commands).toEqual([
      "d1 list --json --env staging",
      "d1 create breakwater-staging --jurisdiction eu --env staging",
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

  test("when the deployment itself fails, the Worker is not asked for its health", async () => {
    wrangler.set({ failing: "deploy", targets: [url] });
    const { failure, printed } = await run();
    expect(failure).toContain("wrangler deploy failed (1)");
    expect(printed).not.toContain("/v1/health");
  });

  test("a Worker that is not healthy in time is a failure that says how to go back", async () => {
    status = 503;
    const { failure } = await run("--health-timeout", "1");
    expect(failure).toContain("it answers 503");
    expect(failure).toContain("npx wrangler rollback");
  });

  test("a Worker that becomes healthy is waited for", async () => {
    status = 503;
    setTimeout(() => {
      status = 200;
    }, 500);
    expect((await run()).failure).toBeUndefined();
  }, 20_000);

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
      "d1_databases: DB_2 is bound out of turn; expected DB, DB_1, DB_2 and so on",
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
      "a queue whose name says nothing",
      toml.replaceAll("breakwater-drains", "breakwater-two"),
      'queues.producers: the Worker cannot tell by its name that "breakwater-two" is the queue of DRAINS',
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
      "a binding for destinations that is not bound",
      toml.replace('DESTINATION_BINDINGS = ""', 'DESTINATION_BINDINGS = "ORDERS: *"'),
      "vars: DESTINATION_BINDINGS names ORDERS, which is not bound; add it to [[queues.producers]] or [[services]]",
    ],
    [
      "bindings for destinations that cannot be read",
      toml.replace('DESTINATION_BINDINGS = ""', 'DESTINATION_BINDINGS = "DEAD: *; ORDERS"'),
      "vars: DESTINATION_BINDINGS names DEAD, a queue of Breakwater's own",
    ],
    [
      "a service for destinations that is the Worker itself",
      `${toml.replace('DESTINATION_BINDINGS = ""', 'DESTINATION_BINDINGS = "SELF: *"')}
[[services]]
binding = "SELF"
service = "breakwater"`,
      "services: SELF leads back to this Worker: deliveries would go round in circles",
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
      'env.staging.queues: the queue "breakwater-drains" is that of the top level too; give each environment its own',
    ],
    [
      "a route that an environment inherits",
      `routes = ["hooks.example.com/*"]\n${toml}\n${staging}`,
      'env.staging.routes: the route "hooks.example.com/*" is that of the top level too',
    ],
    [
      "two environments with the same database",
      `${toml}\n${staging.replace('"breakwater-staging"', '"breakwater"')}`,
      'env.staging.d1_databases: the database "breakwater" is that of the top level too',
    ],
  ])("%s", async (_what, text, fault) => {
    expect(text).not.toBe(toml);
    writeFileSync(config, text);
    const { commands, failure } = await run();
    expect(commands).toEqual([]);
    expect(failure).toContain(fault);
    expect(failure).toMatch(/^wrangler\.toml: [\s\S]*\nNothing has been changed\.$/);
  });

  test("but not for queues and services that destinations may be, also when two environments share them", async () => {
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

  test("an environment without bindings: they are not inherited, and all of them are named", async () => {
    writeFileSync(config, `${toml}\n[env.staging]\n`);
    const { commands, failure } = await run("--env", "staging");
    expect(commands).toEqual([]);
    const places = failure?.split("\n").map((line) => line.split(": ")[1]);
    expect(places).toEqual([
      "env.staging.d1_databases",
      ...Array(2).fill("env.staging.durable_objects.bindings"),
      ...Array(3).fill("env.staging.queues.producers"),
      "env.staging.secrets",
      undefined,
    ]);
  });

  test("an environment that is not in the file", async () => {
    expect((await run("--env", "stagin")).failure).toContain("wrangler.toml: env.stagin: there is no such");
  });

  test("environments in accounts of their own may use the same names", async () => {
    const text = staging.replaceAll(/breakwater-staging(-\w+)?"/g, 'breakwater$1"');
    writeFileSync(config, `${toml}\n${text.replace("[env.staging]", '$&\naccount_id = "other"')}`);
    const { failure } = await run("--env", "staging", "--health-timeout", "0");
    expect(failure).toBeUndefined();
  });
});

test("the example of a second environment has everything that the top level has, under names of its own", async () => {
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

test("without rate limits it deploys, and says that nothing is limited", async () => {
  writeFileSync(config, toml.replace(/\[\[ratelimits\]\]\nname = "INGEST_LIMIT"[^[]*/, ""));
  const { failure, printed } = await run();
  expect(failure).toBeUndefined();
  expect(printed).toContain("Note: ratelimits has no INGEST_LIMIT: posting is not limited.");
});

describe("the command line", () => {
  const read = (...args: string[]) => readDeployment(args, "");

  test("separates what every command needs from what the Worker's deployment alone does", () => {
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

  test("the environment is that of CLOUDFLARE_ENV unless a flag names another", () => {
    expect(readDeployment([], "production").deployment.environment).toBe("production");
    expect(readDeployment(["--env", "staging"], "production").deployment.environment).toBe("staging");
  });

  test.each([
    [["--env"], "--env needs a value"],
    [["--dry-run=no"], "--dry-run takes no value"],
    [["--health-timeout", "soon"], "--health-timeout needs a number of seconds"],
    [["--cwd", "/"], "--cwd does not work here"],
  ])("%j is a mistake that is named: %s", (args, message) => {
    expect(() => read(...args)).toThrow(message);
  });

  const cli = async (...args: string[]) => {
    const script = join(projectRoot, "src/local/deploy.ts");
    const run = promisify(execFile)(process.execPath, [script, ...args], { cwd: projectRoot });
    return await run.then(
      ({ stdout }) => ({ code: 0, stdout, stderr: "" }),
      ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
    );
  };

  test("the exit code is 0 after a deployment, 1 after a fault and 2 after a mistake", async () => {
    writeFileSync(config, toml);
    expect(await cli("--config", config)).toMatchObject({ code: 0 });
    expect(wrangler.commands()).toHaveLength(4);
    writeFileSync(config, toml.replace(/crons = .*/, ""));
    const refused = await cli("--config", config);
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toMatch(/^wrangler\.toml: triggers: no cron/);
    expect(await cli("--env")).toMatchObject({ code: 2 });
    expect(wrangler.commands()).toEqual([]);
  }, 60_000);
});
