/**
 * The receiver of a run: the Worker in receiver/, deployed to the owner's account or started on this machine, or an
 * existing one; and its endpoints, as checks use them.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { bundleWorker } from "../bundle.ts";
import { stopStack } from "../stack.ts";
import { throwawayStack } from "../throwaway.ts";
import { addressIn, projectRoot, wranglerResult } from "../wrangler.ts";
import type { EndpointHit, Hits, Script } from "./protocol.ts";

const MAIN = "tools/verify/receiver/worker.ts";
const CONFIG = join(projectRoot, "tools/verify/receiver/wrangler.toml");

export type VerifyReceiver = Readonly<{
  url: string;
  token: string;
  /**
   * Removes what was started or deployed. If that fails, it rejects and says how to do it by hand. Absent: nothing is
   * to be removed.
   */
  remove?: () => Promise<void>;
}>;

export type ReceiverEndpoint = Readonly<{
  url: string;
  setScript: (script: Script) => Promise<void>;
  /** All requests so far, in the order of arrival. */
  hits: () => Promise<readonly EndpointHit[]>;
}>;

/** Starts the receiver on this machine, at the address from which the deployment is reached. */
export async function startReceiverHere(target: URL, token: string): Promise<VerifyReceiver> {
  const bundled = (directory: string) => bundleWorker(join(directory, "bundle"), MAIN, ["--config", CONFIG]);
  const ip = await ownAddressTowards(target);
  const receiver = await throwawayStack("breakwater-verify-", {
    ...{ bundled, config: CONFIG, ip, vars: { TOKEN: token } },
  });
  const stack = await receiver.start().catch((error: unknown) => {
    throw new Error(`The receiver could not be started: ${errorMessage(error)}\n${receiver.lastLines()}`);
  });
  let hasEnded = false;
  void stack.exited.then(() => {
    hasEnded = true;
  });
  const remove = async () => {
    const fault = hasEnded ? `The receiver ended by itself:\n${receiver.lastLines()}` : undefined;
    await stopStack(stack);
    receiver.discard();
    if (fault !== undefined) throw new Error(fault);
  };
  return { url: stack.url, token, remove };
}

/** The address of the interface that leads to the host. Nothing is sent. */
async function ownAddressTowards({ hostname }: URL): Promise<string> {
  const host = hostname.replace(/^\[|\]$/g, "");
  const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
  try {
    socket.connect(9, host);
    await once(socket, "connect");
    return socket.address().address;
  } finally {
    socket.close();
  }
}

const DEPLOYED_MS = 90_000;

/**
 * Deploys the receiver with the account that wrangler is logged in to.
 * @param name the Worker's
 */
export async function deployReceiver(name: string, token: string): Promise<VerifyReceiver> {
  const directory = mkdtempSync(join(tmpdir(), "breakwater-verify-"));
  const secrets = join(directory, "secrets");
  try {
    writeFileSync(secrets, `TOKEN=${token}\n`, { mode: 0o600 });
    const flags = ["--config", CONFIG, "--name", name];
    const { code, output, entries } = await wranglerResult(["deploy", ...flags, "--secrets-file", secrets]);
    const url = addressIn(entries);
    const receiver = { url: url ?? "", token, remove: () => deleteReceiver(name) };
    if (code === 0 && url !== undefined && (await answers(receiver))) return receiver;
    const fault =
      code !== 0 ? `wrangler deploy failed (${code}):\n${output.trim()}` : `it does not answer at ${url}`;
    // A deployment that failed may have left the Worker behind.
    await deleteReceiver(name).catch(() => {});
    throw new Error(
      `The receiver could not be deployed: ${fault}\nLog in with npx wrangler login, set CLOUDFLARE_ACCOUNT_ID where ` +
        "there are several accounts, or name a receiver with --receiver (docs/verifying.md).",
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function deleteReceiver(name: string): Promise<void> {
  const { code, output } = await wranglerResult(["delete", name, "--config", CONFIG, "--force"]);
  if (code === 0) return;
  throw new Error(
    `The receiver is still there, because wrangler delete failed (${code}): ${output.trim()}\n` +
      `Remove it by hand: npx wrangler delete ${name}`,
  );
}

/** A new address on workers.dev takes a while until it is known everywhere. */
async function answers(receiver: VerifyReceiver): Promise<boolean> {
  const until = Date.now() + DEPLOYED_MS;
  while ((await receiverFault(receiver)) !== undefined) {
    if (Date.now() > until) return false;
    await sleep(1_000);
  }
  return true;
}

/** Why the receiver cannot be used; undefined when it can. */
export async function receiverFault({ url, token }: VerifyReceiver): Promise<string | undefined> {
  try {
    const response = await control(url, token, "");
    if (response.ok) return undefined;
    return response.status === 401
      ? "its token is not the one of --receiver-token"
      : `it answers ${response.status}`;
  } catch (error) {
    return `it cannot be reached: ${errorMessage(error)}`;
  }
}

export function endpointNamed({ url, token }: VerifyReceiver, name: string): ReceiverEndpoint {
  let known: readonly EndpointHit[] = [];
  /** Reads hits again from the first that was under way when last read: it may have been answered since. */
  const read = async () => {
    for (;;) {
      const from = known.find(({ answeredAt }) => answeredAt === null)?.n ?? known.length + 1;
      const response = await control(url, token, `/${name}?from=${from}`);
      const { hits } = (await expectOk(response).json()) as Hits;
      known = [...known.slice(0, from - 1), ...hits];
      if (hits.length < 1000) return known;
    }
  };
  return {
    url: `${url}/hooks/${name}`,
    setScript: async (script) => {
      const body = JSON.stringify(script);
      expectOk(await control(url, token, `/${name}`, { method: "PUT", body }));
    },
    hits: read,
  };
}

function expectOk(response: Response): Response {
  if (response.ok) return response;
  throw new Error(`The receiver answered ${response.status}`);
}

const CONTROL_TRIES = 3;

/** Retries, because reading and setting a script can be repeated. */
async function control(
  url: string,
  token: string,
  path: string,
  init: Readonly<{ method?: string; body?: string }> = {},
): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fetch(`${url}/control${path}`, {
        ...init,
        headers: { authorization: `Bearer ${token}` },
        signal: AbortSignal.timeout(20_000),
      });
    } catch (error) {
      if (attempt === CONTROL_TRIES) throw error;
      await sleep(1_000);
    }
  }
}

export function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `: ${error.cause.message || error.cause.name}` : "";
  return `${error.message}${cause}`;
}
