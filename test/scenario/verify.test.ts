/**
 * `npm run verify` against a local stack under production's quotas and latencies: every check that a local stack can pass
 * passes, the others are skipped, and nothing is left behind.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startReceiver } from "../../tools/receiver.ts";
import { type ApiClient, apiClient, keepFiring, type Stack, stopStack } from "../../tools/stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "../../tools/throwaway.ts";
import { endpointNamed, receiverFault, startReceiverHere } from "../../tools/verify/receiver.ts";
import { projectRoot } from "../../tools/wrangler.ts";

const CRON_MS = 5_000;

/** The checks that need an account, the internet or a flag. */
const SKIPPED = ["billed", "dead-origin", "dropped", "functions", "ip-address"];

let throwaway: Awaited<ReturnType<typeof prepareThrowaway>>;
let stack: Stack;
let stopFiring: () => void;
let api: ApiClient;

beforeAll(async () => {
  throwaway = await prepareThrowaway({}, { latency: 1 });
  stack = await throwaway.start();
  stopFiring = keepFiring(stack.url, { everyMs: CRON_MS });
  api = apiClient(stack.url, THROWAWAY_KEY);
});

afterAll(async () => {
  stopFiring();
  await stopStack(stack);
  throwaway.discard();
});

type Verification = Readonly<{ code: number | null; output: string }>;

/** @param onOutput is called with all that has been printed so far */
async function verify(
  args: readonly string[],
  onOutput: (output: string, interrupt: () => void) => void = () => {},
): Promise<Verification> {
  const file = join(projectRoot, "tools/verify.ts");
  const child = spawn(process.execPath, [file, "--url", stack.url, ...args], {
    env: { ...process.env, BREAKWATER_KEY: THROWAWAY_KEY },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
      onOutput(output, () => child.kill("SIGINT"));
    });
  }
  const [code] = (await once(child, "close")) as [number | null];
  return { code, output };
}

/** The lines of the checks with that result: each has its name, what was expected, and what was seen. */
function linesOf(result: string, output: string): string[] {
  return output.split("\n").filter((line) => line.startsWith(`${result} `) && /^\w+ +[\w-]+: /.test(line));
}

function namesOf(result: string, output: string): string[] {
  return linesOf(result, output)
    .map((line) => line.replace(/^\w+ +([\w-]+): .*$/, "$1"))
    .sort();
}

/** The remains of the run: destinations of its tenant. */
async function leftOf(output: string): Promise<number> {
  const [, tenant] = /with the tenant (verify-[0-9a-f]+)\./.exec(output) ?? [];
  expect(tenant).toBeDefined();
  return (await api.get<{ data: unknown[] }>(`/v1/destinations?tenant=${tenant}`)).data.length;
}

test("every check that a local stack supports passes, and nothing is left behind", async () => {
  const { code, output } = await verify(["--soak", "5s"]);
  expect(linesOf("FAIL", output)).toEqual([]);
  expect(namesOf("skip", output)).toEqual(SKIPPED);
  expect(output).toMatch(new RegExp(`^\\d+ ok, 0 FAIL, ${SKIPPED.length} skip, in \\d+ s$`, "m"));
  expect(code).toBe(0);
  expect(output).toMatch(/^Removed [1-9]\d* destinations\.$/m);
  expect(output).toMatch(/^Removed the receiver\.$/m);
  expect(await leftOf(output)).toBe(0);
  expect(throwaway.output()).not.toContain("QUOTA BREACH");
});

test("verify fails, reports what it saw, and leaves nothing behind if the deployment breaks a promise", async () => {
  const open = await startReceiver(() => ({ status: 204 }));
  const { code, output } = await verify(["--only", "own-host,closed-port", "--closed-port", open.url]);
  open.close();
  expect(namesOf("FAIL", output)).toEqual(["closed-port"]);
  expect(output).toMatch(/^FAIL {2}closed-port: expected a port that nothing listens at: .*; seen: none, /m);
  expect(code).toBe(1);
  expect(await leftOf(output)).toBe(0);
});

test("verify removes what it has created when it is interrupted", async () => {
  let isInterrupted = false;
  const { code, output } = await verify(["--only", "signed,hold"], (soFar, interrupt) => {
    if (isInterrupted || !/^ok {4}signed/m.test(soFar)) return;
    isInterrupted = true;
    interrupt();
  });
  expect(output).toContain("Interrupted: removing what was created.");
  expect(output).toMatch(/^Removed [1-9]\d* destinations\.$/m);
  expect(output).toMatch(/^Removed the receiver\.$/m);
  expect(code).toBe(130);
  expect(await leftOf(output)).toBe(0);
});

test("the receiver accepts only its token, stores nothing for strangers, and counts requests under way", async () => {
  const receiver = await startReceiverHere(new URL(stack.url), "token");
  try {
    expect(await receiverFault({ ...receiver, token: "another" })).toContain("its token is not the one");

    const endpoint = endpointNamed(receiver, "mine");
    await endpoint.setScript({ per: "event", replies: [{ status: 503, afterMs: 500 }, { status: 204 }] });
    const post = async (id: string) =>
      (await fetch(endpoint.url, { method: "POST", body: id, headers: { "webhook-id": id } })).status;
    expect(await Promise.all([post("a"), post("b"), post("c")])).toEqual([503, 503, 503]);
    expect(await post("a")).toBe(204);
    const hits = await endpoint.hits();
    expect(hits.map(({ status }) => status)).toEqual([503, 503, 503, 204]);
    expect(hits.map(({ inFlight }) => inFlight)).toEqual([1, 2, 3, 1]);
    expect(hits.map(({ event, body }) => event === body)).toEqual([true, true, true, true]);

    // These come last: after a refusal whose body was not read, wrangler's proxy may lose the next request.
    const answers = await Promise.all([
      fetch(`${receiver.url}/control`, { headers: { authorization: "Bearer another" } }),
      fetch(`${receiver.url}/control/mine`, { method: "PUT", body: "{}" }),
      fetch(`${receiver.url}/hooks/nobodys`, { method: "POST", body: "{}" }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 404]);
  } finally {
    await receiver.remove?.();
  }
});
