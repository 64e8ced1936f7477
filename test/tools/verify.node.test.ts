/** The comparisons and the output of `npm run verify`, and its refusal of unusable command lines. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { checks } from "../../tools/verify/checks.ts";
import {
  arrivalsOf,
  joinResults,
  judgeBilled,
  judgeConcurrency,
  judgeHeartbeat,
  judgeHold,
  judgeLatency,
  judgeMigrations,
  judgeOnce,
  judgeProbes,
  judgeRetries,
  percentile,
} from "../../tools/verify/judge.ts";
import { durationMs } from "../../tools/verify/options.ts";
import type { EndpointHit } from "../../tools/verify/protocol.ts";
import { lineText, tableText } from "../../tools/verify/report.ts";
import { groupsOf } from "../../tools/verify/run-checks.ts";
import { projectRoot } from "../../tools/wrangler.ts";
import { localServer } from "../support/local-server.ts";

let numbered = 0;
const hit = (
  event: string,
  at: number,
  status: number | null = 204,
  more: Partial<EndpointHit> = {},
): EndpointHit => ({
  n: ++numbered,
  at,
  answeredAt: status === null ? null : at,
  status,
  inFlight: 1,
  event,
  attempt: 1,
  timestamp: "",
  signature: "",
  body: "{}",
  ...more,
});

describe("a percentile", () => {
  it.each([
    [0.5, 50],
    [0.99, 99],
    [1, 100],
    [0, 1],
  ])("of 1 to 100 at %d is %d", (share, expected) => {
    const values = Array.from({ length: 100 }, (_, i) => 100 - i);
    expect(percentile(values, share)).toBe(expected);
  });

  test("is one of the values, which that share of them does not exceed", () => {
    const values = fc.array(fc.integer({ min: 0, max: 1_000 }), { minLength: 1 });
    fc.assert(
      fc.property(values, fc.double({ min: 0, max: 1, noNaN: true }), (given, share) => {
        const found = percentile(given, share);
        expect(given).toContain(found);
        expect(given.filter((value) => value <= found).length).toBeGreaterThanOrEqual(share * given.length);
      }),
    );
  });

  test("without values fails whatever the bounds", () => {
    expect(judgeLatency("arrival", [], { p50Ms: 1e9, p99Ms: 1e9 })).toEqual({
      ok: false,
      seen: "arrival: none",
    });
  });
});

describe("latency", () => {
  it.each([
    [[10, 20, 30], true],
    [[10, 200, 300], false],
    [[10, 20, 5_000], false],
  ])("of %j within 100 and 1000 ms: %s", (values, ok) => {
    expect(judgeLatency("accept", values, { p50Ms: 100, p99Ms: 1_000 }).ok).toBe(ok);
  });

  test("is shown with both figures", () => {
    const { seen } = judgeLatency("accept", [12.4, 11_000], { p50Ms: 1, p99Ms: 1 });
    expect(seen).toBe("accept p50 12 ms, p99 11.0 s");
  });
});

describe("events that are to arrive once", () => {
  it.each([
    ["each once", [hit("a", 1), hit("b", 2)], true],
    ["after a failure", [hit("a", 1, 503), hit("a", 2), hit("b", 3)], true],
    ["one not", [hit("a", 1)], false],
    ["one not answered yet", [hit("a", 1), hit("b", 2, null)], false],
    ["one twice", [hit("a", 1), hit("b", 2), hit("b", 3)], false],
    ["and an unknown one", [hit("a", 1), hit("b", 2), hit("c", 3)], false],
  ])("%s", (_what, hits, ok) => expect(judgeOnce(["a", "b"], hits).ok).toBe(ok));

  test("are counted as arrived, lost and duplicates", () => {
    const hits = [hit("a", 1), hit("a", 2), hit("b", 3, 500)];
    expect(arrivalsOf(["a", "b"], hits)).toEqual({ arrived: 1, lost: 1, duplicates: 1 });
  });
});

describe("a retry", () => {
  const range = { fromMs: 3_000, toMs: 5_000 };
  const first = hit("a", 1_000, 503, { answeredAt: 1_200 });
  const second = (at: number, more: Partial<EndpointHit> = {}) => hit("a", at, 204, { attempt: 2, ...more });

  it.each([
    ["at its time", [first, second(4_500)], true],
    ["counted from the answer", [first, second(4_200)], true],
    ["too early", [first, second(4_199)], false],
    ["too late", [first, second(6_201)], false],
    ["missing", [first], false],
    ["with other bytes", [first, second(4_500, { body: "[]" })], false],
    ["with a third attempt", [first, second(4_500), second(4_600)], false],
    ["that says it is the first", [first, second(4_500, { attempt: 1 })], false],
  ])("%s", (_what, hits, ok) => expect(judgeRetries(["a"], hits, range).ok).toBe(ok));

  it.each([
    [[first, second(4_500)], "2 attempts of 1 events, second after 3.3 s"],
    [
      [first, second(4_500, { attempt: 1, body: "[]" })],
      "2 attempts of 1 events, second after 3.3 s, with other bytes, those of one event numbered 1, 1",
    ],
    [[], "0 attempts of 1 events, second none, those of one event numbered not at all"],
  ])("is described: %#", (hits, seen) => expect(judgeRetries(["a"], hits, range).seen).toBe(seen));
});

describe("a hold of ten seconds", () => {
  const terms = { holdMs: 10_000, withinMs: 5_000 };
  const first = hit("a", 0, 503);

  it.each([
    ["kept by all", [first, hit("a", 10_100), hit("b", 10_200)], true],
    ["with one that was about to start", [first, hit("b", 900), hit("a", 10_000)], true],
    ["with one during it", [first, hit("b", 1_100), hit("a", 10_000)], false],
    ["ended too early", [first, hit("a", 9_900), hit("b", 10_100)], false],
    ["after which nothing comes", [first], false],
    ["after which it takes too long", [first, hit("a", 15_100), hit("b", 15_200)], false],
    ["without a first attempt", [], false],
  ])("%s", (_what, hits, ok) => expect(judgeHold(["a", "b"], hits, terms).ok).toBe(ok));
});

describe("an open circuit", () => {
  const opening = { openedAt: 1_000, closedAt: 14_000, cooldownMs: 4_000 };
  const before = [hit("a", 800, 500), hit("b", 1_200, 500)];
  const success = hit("a", 14_000);

  it.each([
    [
      "with a probe for each cool-down",
      [...before, hit("a", 5_200, 500), hit("a", 9_400, 500), success],
      true,
    ],
    ["with a single probe", [...before, hit("a", 9_400, 500), success], true],
    ["without a probe", [...before, success], false],
    [
      "with probes too close together",
      [...before, hit("a", 5_200, 500), hit("b", 6_000, 500), success],
      false,
    ],
    ["with a herd", [...before, ...[5, 6, 7, 8, 9].map((s) => hit("a", s * 1_000, 500)), success], false],
  ])("%s", (_what, hits, ok) => expect(judgeProbes(hits, opening).ok).toBe(ok));
});

describe("a cap of five", () => {
  it.each([
    [[1, 2, 5, 4], true],
    [[1, 6], false],
    [[1, 1], false],
    [[], false],
  ])("with %j under way: %s", (counts, ok) => {
    const hits = counts.map((inFlight) => hit("a", 1, 204, { inFlight }));
    expect(judgeConcurrency(hits, 5).ok).toBe(ok);
  });
});

describe("the heartbeat", () => {
  it.each([
    ["that moves", [1_000, 61_000], 3, true],
    ["that begins", [null, 1_000, 61_000], 3, true],
    ["that was read once", [null, 1_000], 3, false],
    ["that stands still", [1_000, 1_000], 130, false],
    ["that moves and is old", [1_000, 61_000], 121, false],
    ["that was never there", [null, null], undefined, false],
  ])("%s", (_what, heartbeats, age, ok) => expect(judgeHeartbeat(heartbeats, age).ok).toBe(ok));
});

describe("the migrations of a deployment", () => {
  it.each([
    ["all applied", "0001_b.sql", [{ name: "DB", migration: "0001_b.sql" }], true],
    ["rolled back", "0001_b.sql", [{ name: "DB", migration: "0002_c.sql" }], true],
    [
      "one behind",
      "0001_b.sql",
      [
        { name: "DB", migration: "0001_b.sql" },
        { name: "DB_1", migration: "0000_a.sql" },
      ],
      false,
    ],
    ["without a record", "0001_b.sql", [{ name: "DB", migration: null }], false],
    ["of a version that does not say", undefined, [{ name: "DB" }], false],
    ["while the database does not answer", "0001_b.sql", [], false],
  ])("%s", (_what, expected, databases, ok) => expect(judgeMigrations(expected, databases).ok).toBe(ok));
});

describe("billed usage", () => {
  const deliveries = 2_000;
  const inLedger = { rowsWritten: 40, rowsRead: 900, queueOperations: 60 };

  it.each([
    ["within the ledger", inLedger, true],
    ["with a row for each delivery", { ...inLedger, rowsWritten: 2_000 }, false],
    ["with a message for each delivery", { ...inLedger, queueOperations: 6_000 }, false],
    ["that has not been counted yet", { ...inLedger, queueOperations: 0 }, false],
  ])("%s", (_what, used, ok) => expect(judgeBilled(used, deliveries, 2).ok).toBe(ok));
});

test("several results are joined into one that is ok when all of them are", () => {
  const [good, bad] = [
    { ok: true, seen: "a" },
    { ok: false, seen: "b" },
  ];
  expect(joinResults(good, good)).toEqual({ ok: true, seen: "a; a" });
  expect(joinResults(good, bad)).toEqual({ ok: false, seen: "a; b" });
});

describe("the lines", () => {
  const lines = [
    { result: "ok", name: "health", expected: "200", seen: "200" },
    { result: "FAIL", name: "a-longer-name", expected: "all of them", seen: "none" },
    { result: "skip", name: "soak", expected: "nothing lost", seen: "not asked for" },
  ] as const;

  test("show what was expected and seen, or why a check was skipped", () => {
    expect(lines.map(lineText)).toEqual([
      "ok    health: expected 200; seen: 200",
      "FAIL  a-longer-name: expected all of them; seen: none",
      "skip  soak: skipped: not asked for",
    ]);
  });

  test("are columns in the end, with their number, and with the expectation of failed checks", () => {
    expect(tableText(lines, 61_400)).toBe(`ok    health         200
FAIL  a-longer-name  none
                     expected all of them
skip  soak           skipped: not asked for

1 ok, 1 FAIL, 1 skip, in 61 s`);
  });
});

test("checks that run together do so only with their neighbours", () => {
  const [a, d] = [{ runsAlone: true }, { runsAlone: true }] as const;
  const [b, c, e] = [{}, {}, {}];
  expect(groupsOf([a, b, c, d, e])).toEqual([[a], [b, c], [d], [e]]);
});

test("every check has a row in the documentation, and every row is a check", () => {
  const page = readFileSync(join(projectRoot, "docs/verifying.md"), "utf8");
  const [, section = ""] = page.split(/^## What each line confirms$/m);
  const [table = ""] = section.split(/^## /m);
  const rows = [...table.matchAll(/^\| `([\w-]+)` \|/gm)].map(([, name]) => name);
  expect(rows.toSorted()).toEqual(checks.map(({ name }) => name).toSorted());
});

describe("a duration", () => {
  it.each([
    ["90s", 90_000],
    ["10m", 600_000],
    ["24h", 86_400_000],
  ])("%s", (given, ms) => expect(durationMs(given)).toBe(ms));

  it.each(["0", "0s", "", "10", "1.5h", "-1m", "25h", "1d", "10 m"])("is not %j", (given) => {
    expect(() => durationMs(given)).toThrow(
      `--soak is ${JSON.stringify(given)}; expected a duration such as`,
    );
  });
});

describe("a command line", () => {
  /** Answers as Breakwater does to a key that may do this and nothing else; records the requests. */
  let allowed: (method: string, path: string) => number = () => 200;
  let healthBody = '{"status":"ok"}';
  const requests: string[] = [];
  const server = localServer((request, response) => {
    const { method = "", url = "" } = request;
    requests.push(`${method} ${url.replace(/\?.*/, "")}`);
    if (url === "/v1/health") return response.end(healthBody);
    const status = allowed(method, url);
    response
      .writeHead(status)
      .end(JSON.stringify(status === 200 ? {} : { detail: `refused with ${status}` }));
    return undefined;
  });
  let address: string;
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  function run(...args: string[]): Promise<{ code: number; output: string }> {
    requests.length = 0;
    const { BREAKWATER_URL: _url, BREAKWATER_KEY: _key, ...env } = process.env;
    return new Promise((resolve) => {
      const file = `${projectRoot}/tools/verify.ts`;
      execFile(process.execPath, [file, ...args], { env }, (error, stdout, stderr) => {
        resolve({ code: Number(error?.code ?? 0), output: stdout + stderr });
      });
    });
  }

  it.each([
    ["without an address", ["--key", "k"], "--url is missing: the address of the deployment"],
    ["without a key", ["--url", "https://host"], "--key is missing: an API key with all scopes"],
    ["with an address that is none", ["--url", "host", "--key", "k"], '--url is "host"; expected an address'],
    [
      "with half a receiver",
      ["--url", "https://h", "--key", "k", "--receiver", "https://r"],
      "need each other",
    ],
    [
      "with an unknown check",
      ["--url", "https://h", "--key", "k", "--only", "health,x"],
      "names no check: x;",
    ],
    ["with no time to soak", ["--url", "https://h", "--key", "k", "--soak", "0"], '--soak is "0"; expected'],
    [
      "with a rate of nothing",
      ["--url", "https://h", "--key", "k", "--soak-rate", "0"],
      '--soak-rate is "0";',
    ],
    ["with an unknown flag", ["--url", "https://h", "--key", "k", "--sok", "1h"], "Unknown flag: --sok"],
  ])("%s is a mistake, and no request is made", async (_what, args, message) => {
    const { code, output } = await run(...args);
    expect({ code, requests }).toEqual({ code: 2, requests: [] });
    expect(output).toContain(message);
  });

  it("exits with 1 if nothing answers", async () => {
    const { code, output } = await run("--url", "http://127.0.0.1:9", "--key", "k");
    expect({ code, output }).toEqual({
      code: 1,
      output: expect.stringContaining("http://127.0.0.1:9 cannot be reached"),
    });
  });

  it("exits with 1 if another server answers", async () => {
    healthBody = "<html>";
    const { code, output } = await run("--url", address, "--key", "k");
    healthBody = '{"status":"ok"}';
    expect({ code, requests }).toEqual({ code: 1, requests: ["GET /v1/health"] });
    expect(output).toContain(`${address} is not Breakwater: /v1/health answered 200`);
  });

  it.each([
    ["is not valid", () => 401],
    ["lacks the scope admin", (_method: string, path: string) => (path.startsWith("/v1/keys") ? 403 : 200)],
    [
      "is bound to a tenant",
      (_method: string, path: string) => (path.includes("tenant=verify-") ? 403 : 200),
    ],
    ["may not post", (method: string) => (method === "POST" ? 403 : 200)],
  ])("exits with 1 if the key %s, and nothing is created", async (_what, answers) => {
    allowed = answers;
    const { code, output } = await run("--url", address, "--key", "k");
    expect(code).toBe(1);
    expect(output).toMatch(/The key cannot be used: refused with 40[13]\. .*Nothing has been created\./);
    expect(requests).toEqual(["GET /v1/health", "GET /v1/keys", "GET /v1/destinations", "POST /v1/events"]);
  });

  it("exits with 1 if the receiver does not know the token, and nothing is created", async () => {
    allowed = (_method, path) => (path === "/control" ? 401 : 200);
    const receiver = ["--receiver", address, "--receiver-token", "another"];
    const { code, output } = await run("--url", address, "--key", "k", "--only", "signed", ...receiver);
    expect(code).toBe(1);
    expect(output).toContain("cannot be used: its token is not the one of --receiver-token");
    expect(requests).not.toContain("POST /v1/destinations");
  });

  it("can print the list of checks without anything else", async () => {
    const { code, output } = await run("--list");
    expect(code).toBe(0);
    expect(output).toMatch(/^health +\/v1\/health answers 200, ok$/m);
  });
});
