/** `npm run receiver`, as its own process: what it prints and answers for signed and unsigned deliveries. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { Webhook } from "standardwebhooks";
import { afterEach, describe, expect, test } from "vitest";
import { projectRoot } from "../../tools/wrangler.ts";

const SCRIPT = "tools/receiver-cli.ts";
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const body = JSON.stringify({ type: "order.created", timestamp: "2026-01-01T00:00:00Z", data: {} });

let child: ChildProcess | undefined;
afterEach(() => child?.kill());

/** Starts it on a free port; `line` resolves with the next line that it prints, empty ones left out. */
async function start(flags: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { WEBHOOK_SECRET: _, ...inherited } = process.env;
  child = spawn(process.execPath, [SCRIPT, "--port", "0", ...flags], {
    cwd: projectRoot,
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...inherited, ...env },
  });
  if (!child.stdout) throw new Error("Its output is piped");
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const line = async (): Promise<string> => {
    const { value = "" } = await lines.next();
    return value === "" ? line() : value;
  };
  const url = /http:\S+\d/.exec(await line())?.[0] ?? "";
  return { url, line };
}

function deliver(url: string, secret?: string): Promise<Response> {
  const at = new Date();
  const id = "evt_1";
  const signature = secret === undefined ? undefined : new Webhook(secret).sign(id, at, body);
  const headers = {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    ...(signature && { "webhook-signature": signature }),
  };
  return fetch(url, { method: "POST", headers, body });
}

describe("a delivery", () => {
  test.each([
    ["a flag", ["--secret", SECRET], {}],
    ["the environment", [], { WEBHOOK_SECRET: SECRET }],
  ])("is verified with the secret from %s, printed and answered with 200", async (_, flags, env) => {
    const { url, line } = await start(flags, env);
    expect((await deliver(url, SECRET)).status).toBe(200);
    expect(await line()).toMatch(/^\d\d:\d\d:\d\d {2}evt_1 {2}order\.created {2}verified {2}→ 200$/);
  });

  test("with another signature, or none, is refused with 401 and printed with the reason", async () => {
    const { url, line } = await start(["--secret", SECRET]);
    expect((await deliver(url, `whsec_${Buffer.alloc(32, 8).toString("base64")}`)).status).toBe(401);
    expect(await line()).toContain("not verified: No matching signature found");
    await deliver(url);
    expect(await line()).toContain("not verified: Missing required headers");
  });
});

test("without a secret the receiver makes one, and prints how to create a destination with it", async () => {
  const { url, line } = await start([]);
  const printed = [await line(), await line(), await line()].join("\n");
  expect(printed).toContain("/v1/destinations");
  const given = JSON.parse(/--json '(.*)'/.exec(printed)?.[1] ?? "");
  expect(given).toMatchObject({ url, secret: expect.stringMatching(/^whsec_/) });
  await deliver(url, given.secret);
  expect(await line()).toContain("verified  → 200");
});

test("flags make the receiver fail, answer slowly, and send Retry-After, for the first requests", async () => {
  const flags = ["--status", "503", "--retry-after", "7", "--delay", "30", "--first", "1"];
  const { url, line } = await start(["--secret", SECRET, ...flags]);
  const startedAt = performance.now();
  const refused = await deliver(url, SECRET);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(29);
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "7"]);
  expect(await line()).toContain("verified  → 503 after 30 ms");
  const taken = await deliver(url, SECRET);
  expect([taken.status, taken.headers.get("retry-after")]).toEqual([200, null]);
});

test.each([
  ["--status", "999"],
  ["--port", "many"],
  ["--delay", "-1"],
  ["--retry-after", "1.5"],
])("the mistake %s %s is reported, and nothing is started", async (...flags) => {
  const run = promisify(execFile)(process.execPath, [SCRIPT, flags.join("=")], { cwd: projectRoot });
  const failure = await run.catch((error: unknown) => error);
  expect(failure).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`${flags[0]} is "${flags[1]}"; expected a whole number`),
  });
});

test("a taken port is reported in one line", async () => {
  const { url } = await start([]);
  const run = promisify(execFile)(process.execPath, [SCRIPT, "--port", new URL(url).port], {
    cwd: projectRoot,
  });
  const failure = await run.catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: 1, stderr: expect.stringMatching(/^listen EADDRINUSE.*\n$/) });
});
