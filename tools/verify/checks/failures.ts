/**
 * The forms of failures: the reason that is reported for a test event to an address that fails in a certain way. In
 * production the platform may answer in the receiver's place, with statuses and codes that src/core/retry/classify.ts
 * reads.
 */
import { lookup } from "node:dns/promises";
import { createServer, type Server } from "node:net";
import type { Check, Run, Skipped } from "../check.ts";
import type { CheckResult } from "../judge.ts";
import type { FailingAddress } from "../options.ts";

type Failure = Readonly<{
  name: FailingAddress;
  what: string;
  reasons: readonly string[];
  /** The common part of the reasons, if there are many. */
  summary?: string;
  /** Further correct reasons on a local stack, whose runtime does not say why it could not connect. */
  localReasons?: readonly string[];
  /** Whether the edge must have answered in the receiver's place, with a status. */
  hasStatus?: boolean;
  timeoutMs?: number;
  /** The address unless the flag names another. */
  usual?: (run: Run) => string;
  /** The same for a local stack, which must not need the internet: a port of this machine. */
  localUsual?: () => Promise<LocalAddress>;
}>;

type LocalAddress = Readonly<{ url: string; close: () => void }>;

/** A name that only the internet can resolve. */
const KNOWN_NAME = "cloudflare.com";

function failing(failure: Failure): Check {
  const { name, what, reasons, localReasons = [], hasStatus = false } = failure;
  const { summary = reasons.join(" or ") } = failure;
  const locally = localReasons.length === 0 ? "" : ` (a local stack: ${localReasons.join(" or ")})`;
  return {
    name,
    expected: `${what}: ${summary}${locally}`,
    run: async (run) => {
      const address = await addressFor(run, failure);
      if ("skipped" in address) return address;
      try {
        const { error = "none", status, response } = await sendTest(run, failure, address.url);
        const isRight = reasons.includes(error) || (run.isLocal && localReasons.includes(error));
        const answer =
          status === undefined ? "" : `, ${status} ${JSON.stringify(response?.slice(0, 60) ?? "")}`;
        const seen = `${error}${answer}, at ${new URL(address.url).host}`;
        return { ok: isRight && (!hasStatus || status !== undefined), seen };
      } finally {
        address.close();
      }
    },
  };
}

async function addressFor(run: Run, { name, usual, localUsual }: Failure): Promise<LocalAddress | Skipped> {
  const given = run.options.failing[name];
  if (given === undefined && run.isLocal && localUsual) return localUsual();
  const url = given ?? usual?.(run);
  if (url === undefined)
    return { skipped: `no public address is known to be like that; name one with --${name}` };
  const isReserved = new URL(url).hostname.endsWith(".invalid");
  const isElsewhere = /[a-z]/i.test(new URL(url).hostname) && !isReserved;
  const hasInternet =
    !run.isLocal || !isElsewhere || (await lookup(KNOWN_NAME).catch(() => undefined)) !== undefined;
  return hasInternet ? { url, close: () => {} } : { skipped: "the internet cannot be reached from here" };
}

type TestResult = Readonly<{ status?: number; error?: string; response?: string }>;

async function sendTest(
  { deployment }: Run,
  { name, timeoutMs = 10_000 }: Failure,
  url: string,
): Promise<TestResult> {
  const { id } = await deployment.createDestination(name, url, { timeout_ms: timeoutMs });
  const { status, json, text } = await deployment.request("POST", `/v1/destinations/${id}/test`);
  if (status === 200) return json as TestResult;
  // A deployment with its own resolver looks names up before it sends.
  if (status === 409 && text.includes("could not be looked up")) return { error: "unresolved" };
  throw new Error(`the test event was answered ${status}: ${text.slice(0, 200)}`);
}

export const missingName = failing({
  name: "missing-name",
  what: "a host name that does not exist",
  reasons: ["dns", "unresolved"],
  localReasons: ["network"],
  // Reserved: it cannot be registered.
  usual: (run) => `https://${run.unique("breakwater")}.invalid/`,
});

export const closedPort = failing({
  name: "closed-port",
  what: "a port that nothing listens at",
  reasons: ["refused", "connection_lost"],
  // Its owners offer it for tests, and refuse connections to all ports but a few.
  usual: () => "https://scanme.nmap.org:8443/",
  localUsual: async () => {
    const { url, close } = await portOfThisMachine("http");
    close();
    return { url, close };
  },
});

export const badCertificate = failing({
  name: "bad-certificate",
  what: "a certificate that is not valid",
  reasons: ["tls"],
  localReasons: ["network", "connection_lost"],
  usual: () => "https://expired.badssl.com/",
  // A server that knows no TLS: its handshake fails too.
  localUsual: () => portOfThisMachine("https"),
});

export const deadOrigin = failing({
  name: "dead-origin",
  what: "an origin that is down behind Cloudflare's proxy",
  reasons: ["refused", "timeout", "connection_lost", "network", "dns"],
  summary: "a reason such as refused, and the edge's status",
  hasStatus: true,
  timeoutMs: 25_000,
});

async function portOfThisMachine(protocol: "http" | "https"): Promise<LocalAddress> {
  const server: Server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { url: `${protocol}://127.0.0.1:${port}/`, close: () => server.close() };
}

export const noAnswer: Check = {
  name: "no-answer",
  expected: "a receiver that does not answer within timeout_ms: timeout",
  usesReceiver: true,
  run: async (run) => {
    const replies = [{ status: 204, afterMs: 8_000 }];
    const { id } = await run.target("no-answer", { replies, timeout_ms: 1_000 });
    const { error = "none" } = await run.deployment.call<TestResult>("POST", `/v1/destinations/${id}/test`);
    return { ok: error === "timeout", seen: error };
  },
};

export const ownHost: Check = {
  name: "own-host",
  expected: "a destination on the deployment's own host is refused: 422",
  run: async (run) => judgeRefused(run, new URL("/hook", run.deployment.url).href, "this deployment itself"),
};

export const ipAddress: Check = {
  name: "ip-address",
  expected: "a destination that is an IP address is refused: 422",
  run: async (run) => {
    if (run.isLocal) return { skipped: "a local stack delivers to addresses of its own machine" };
    return judgeRefused(run, "https://1.1.1.1/", "IP address");
  },
};

async function judgeRefused({ deployment }: Run, url: string, fault: string): Promise<CheckResult> {
  const body = JSON.stringify({ url, tenant: deployment.tenant });
  const { status, json, text } = await deployment.request("POST", "/v1/destinations", body);
  const { errors = [] } = (json ?? {}) as {
    errors?: readonly Readonly<{ field: string; fault: string }>[];
  };
  const named = errors.find(({ field }) => field === "url")?.fault;
  const seen = `${status}${named === undefined ? `: ${text.slice(0, 120)}` : `, the URL ${named}`}`;
  return { ok: status === 422 && named?.includes(fault) === true, seen };
}
