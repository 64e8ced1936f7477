/** The use of an account by `npm run verify`, with a wrangler and an API of Cloudflare that only record requests. */
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, test, vi } from "vitest";
import { type Check, Run } from "../../tools/verify/check.ts";
import { billed } from "../../tools/verify/checks/billed.ts";
import { dropped } from "../../tools/verify/checks/dropped.ts";
import { DeploymentUnderTest } from "../../tools/verify/deployment.ts";
import { verifyOptionsFrom } from "../../tools/verify/options.ts";
import { deployReceiver } from "../../tools/verify/receiver.ts";
import { runChecks } from "../../tools/verify/run-checks.ts";
import { localServer } from "../support/local-server.ts";
import { fakeWrangler } from "./fake-wrangler.ts";

const wrangler = fakeWrangler();
const { PATH } = process.env;
/** Answers by path; the body of the last request to each is recorded. */
let answers: (path: string) => unknown;
const bodies = new Map<string, string>();
const requests: string[] = [];
const server = localServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const path = request.url ?? "";
  bodies.set(path, Buffer.concat(chunks).toString());
  requests.push(`${request.method} ${path}`);
  const answer = answers(path);
  response.writeHead(answer === undefined ? 404 : 200).end(JSON.stringify(answer ?? {}));
});
let url: string;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  process.env.PATH = wrangler.path;
});

afterAll(() => {
  process.env.PATH = PATH;
  server.closeAllConnections();
  server.close();
  wrangler.remove();
});

beforeEach(() => {
  answers = () => ({});
  requests.length = 0;
  wrangler.set({ targets: [url] });
});

/** Paths of this machine are left out. */
const commands = () => wrangler.commands().map((command) => command.replaceAll(/ \/\S+/g, " FILE"));

describe("the receiver of a deployment", () => {
  const deployed = "deploy --config FILE --name breakwater-verify-1 --secrets-file FILE";
  const deleted = "delete breakwater-verify-1 --config FILE --force";

  test("is deployed with its token as a secret, and deleted in the end", async () => {
    const receiver = await deployReceiver("breakwater-verify-1", "token");
    expect([receiver.url, commands()]).toEqual([url, [deployed]]);
    await receiver.remove?.();
    expect(commands()).toEqual([deleted]);
  });

  test("is deleted if its deployment failed, because a part of it may exist", async () => {
    wrangler.set({ failing: "deploy" });
    await expect(deployReceiver("breakwater-verify-1", "token")).rejects.toThrow(
      /The receiver could not be deployed: wrangler deploy failed \(1\):\n.*as the test wants it\nLog in with npx wrangler login/,
    );
    expect(commands()).toEqual([deployed, deleted]);
  });

  test("that cannot be deleted is named, with the command to do that by hand", async () => {
    const receiver = await deployReceiver("breakwater-verify-1", "token");
    wrangler.set({ failing: "delete" });
    await expect(receiver.remove?.()).rejects.toThrow(
      "Remove it by hand: npx wrangler delete breakwater-verify-1",
    );
  });
});

const host = "https://breakwater.example";

function runAt(address: string, signal = new AbortController().signal): Run {
  const flags = { values: { url: address, key: "k" }, others: [] };
  return new Run({
    deployment: new DeploymentUnderTest(new URL(address), "k", "verify-1"),
    options: verifyOptionsFrom(flags, {}, []),
    isLocal: address !== host,
    receiver: undefined,
    suffix: "1",
    signal,
    note: () => {},
  });
}

describe("the usage that Cloudflare has billed", () => {
  const START = Date.parse("2026-11-22T09:00:20.000Z");

  /** A deployment whose posts take no time, and a clock that the waiting moves. */
  function billedRun(address = host): Run {
    const run = runAt(address);
    vi.spyOn(run, "endpoint").mockResolvedValue({ url: "", setScript: async () => {}, hits: async () => [] });
    vi.spyOn(run, "hitsOnce").mockResolvedValue([]);
    vi.spyOn(run, "wait").mockImplementation(async (ms) => {
      vi.setSystemTime(Date.now() + ms);
    });
    const { deployment } = run;
    vi.spyOn(deployment, "createDestination").mockResolvedValue({ id: "dst_1", secret: "", type: "t" });
    vi.spyOn(deployment, "post").mockImplementation(async () => {
      vi.setSystemTime(Date.now() + 500);
      return [];
    });
    return run;
  }

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["Date"], now: START });
    vi.stubEnv("CLOUDFLARE_API_TOKEN", "secret-token");
    vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", "account");
    vi.stubEnv("CLOUDFLARE_API_BASE_URL", url);
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllEnvs();
  });

  const resources = (path: string) => {
    if (path.startsWith("/accounts/account/d1/database?name=breakwater"))
      return {
        result: [
          { name: "breakwater-staging", uuid: "other" },
          { name: "breakwater", uuid: "db-1" },
        ],
      };
    if (!path.startsWith("/accounts/account/queues")) return undefined;
    const names = ["deliveries", "drains", "upkeep", "dead"].map((word) => `breakwater-${word}`);
    return { result: [...names, "another"].map((name) => ({ queue_name: name, queue_id: `id of ${name}` })) };
  };

  /** The answers of the analytics, call by call; the last answer stays. */
  function counting(...counts: readonly (readonly [rowsWritten: number, operations: number])[]): void {
    let calls = 0;
    answers = (path) => {
      if (path !== "/graphql") return resources(path);
      const [rowsWritten, operations] = counts[Math.min(calls++, counts.length - 1)] ?? [0, 0];
      const d1 = [{ sum: { rowsRead: 800, rowsWritten } }];
      const queue = [{ sum: { billableOperations: operations } }];
      const account = { d1AnalyticsAdaptiveGroups: d1, queueMessageOperationsAdaptiveGroups: queue };
      return { data: { viewer: { accounts: [account] } }, errors: null };
    };
  }

  test("is compared with the ledger as soon as the counts no longer grow", async () => {
    counting([0, 0], [20, 30], [44, 66], [44, 66]);
    expect(await billed.run(billedRun())).toEqual({
      ok: true,
      seen: "44 of 104 rows written; 800 of 2150 rows read; 66 of 76 queue operations",
    });
    const { variables } = JSON.parse(bodies.get("/graphql") ?? "{}");
    expect(variables).toEqual({
      account: "account",
      databases: ["db-1"],
      queues: ["deliveries", "drains", "upkeep", "dead"].map((word) => `id of breakwater-${word}`),
      from: "2026-11-22T09:01:00.000Z",
      to: "2026-11-22T09:02:00.000Z",
    });
  });

  test("fails if every delivery has written a row", async () => {
    counting([2_050, 66]);
    expect(await billed.run(billedRun())).toMatchObject({ ok: false });
  });

  test("is skipped if Cloudflare has not counted it in time", async () => {
    counting([0, 0]);
    expect(await billed.run(billedRun())).toEqual({ skipped: expect.stringContaining("has not counted") });
  });

  test("is skipped without a token, and makes no request", async () => {
    vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
    answers = () => undefined;
    expect(await billed.run(billedRun())).toEqual({
      skipped: expect.stringContaining("needs CLOUDFLARE_ACCOUNT_ID and a CLOUDFLARE_API_TOKEN"),
    });
  });

  test("is skipped, with the answer, if the token may not read the databases", async () => {
    answers = () => undefined;
    const result = await billed.run(billedRun());
    expect(result).toEqual({
      skipped: expect.stringMatching(/^Cloudflare's API: GET \/.* was answered 404$/),
    });
    expect(JSON.stringify(result)).not.toContain("secret-token");
  });
});

describe("D1's count for a dropped table", () => {
  const databases = "/accounts/account/d1/database";

  beforeEach(() => {
    vi.stubEnv("CLOUDFLARE_API_TOKEN", "secret-token");
    vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", "account");
    vi.stubEnv("CLOUDFLARE_API_BASE_URL", url);
  });

  afterEach(() => {
    vi.unstubAllEnvs();
  });

  function counting(written: (sql: string) => number | undefined): void {
    answers = (path) => {
      if (path === databases) return { result: { uuid: "db-2" } };
      if (path === `${databases}/db-2`) return { result: null };
      const { sql } = JSON.parse(bodies.get(path) ?? "{}");
      const rows_written = written(sql);
      return rows_written === undefined
        ? undefined
        : { result: [{ meta: { rows_written, rows_read: 1_000 } }] };
    };
  }

  test("is shown beside the deleted rows, from a database that is removed afterwards", async () => {
    counting((sql) => (sql.startsWith("DELETE") ? 1_000 : 2));
    expect(await dropped.run(runAt(host))).toEqual({
      ok: true,
      seen: "1000 rows: dropped 2 written, 1000 read; deleted 1000 written, 1000 read",
    });
    expect(JSON.parse(bodies.get(databases) ?? "{}")).toEqual({ name: "verify-dropped-1" });
    expect(requests.at(-1)).toBe(`DELETE ${databases}/db-2`);
  });

  test("fails if the counts of deleted rows cannot be correct", async () => {
    counting(() => 0);
    expect(await dropped.run(runAt(host))).toMatchObject({ ok: false });
  });

  test("leaves no database if a statement fails", async () => {
    counting((sql) => (sql.startsWith("DROP") ? undefined : 1_000));
    await expect(dropped.run(runAt(host))).rejects.toThrow(/query was answered 404$/);
    expect(requests.at(-1)).toBe(`DELETE ${databases}/db-2`);
  });

  test("names the database that could not be deleted", async () => {
    counting(() => 1_000);
    const answer = answers;
    answers = (path) => (path === `${databases}/db-2` ? undefined : answer(path));
    await expect(dropped.run(runAt(host))).rejects.toThrow("Delete the database verify-dropped-1 by hand");
  });

  test("is skipped with a token that may not create a database", async () => {
    answers = () => undefined;
    expect(await dropped.run(runAt(host))).toEqual({
      skipped: expect.stringMatching(/^Cloudflare's API: POST .* was answered 404$/),
    });
  });
});

describe("the checks of a run", () => {
  const check = (name: string, more: Partial<Check> = {}): Check => ({
    name,
    expected: "",
    runsAlone: true,
    run: async () => ({ ok: true, seen: "" }),
    ...more,
  });
  const fails = { run: async () => ({ ok: false, seen: "" }) };

  it("skip those that need the receiver if the deployment does not reach it", async () => {
    const checks = [
      check("reach", { usesReceiver: true, reachesReceiver: true, ...fails }),
      check("signed", { usesReceiver: true }),
      check("own-host"),
    ];
    const lines = await runChecks(checks, runAt(host), () => {});
    expect(lines.map(({ name, result }) => [name, result])).toEqual([
      ["reach", "FAIL"],
      ["signed", "skip"],
      ["own-host", "ok"],
    ]);
  });

  it("continue after one that throws, which has failed with its error", async () => {
    const broken = check("broken", { run: () => Promise.reject(new Error("no answer")) });
    const printed: string[] = [];
    const lines = await runChecks([broken, check("next")], runAt(host), (line) => printed.push(line));
    expect(lines.map(({ result }) => result)).toEqual(["FAIL", "ok"]);
    expect(printed[0]).toContain("seen: no answer");
  });

  it("end when the run is interrupted, and none begins after that", async () => {
    const controller = new AbortController();
    const run = runAt(host, controller.signal);
    const began: string[] = [];
    const waits = check("waits", {
      run: async () => {
        began.push("waits");
        controller.abort();
        await run.wait(60_000);
        return { ok: true, seen: "" };
      },
    });
    const next = check("next", {
      run: async () => {
        began.push("next");
        return { ok: true, seen: "" };
      },
    });
    await expect(runChecks([waits, next], run, () => {})).rejects.toThrow("interrupted");
    expect(began).toEqual(["waits"]);
  });
});
