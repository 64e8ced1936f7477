/**
 * `npm run verify -- --url … --key …`: shows the owner of a deployment that it does what the README promises, through its
 * public API and with a receiver of its own, and leaves nothing behind. docs/verifying.md has what each check confirms.
 */
import { randomBytes } from "node:crypto";
import { runScript } from "./flags.ts";
import { whenOrphaned } from "./process-groups.ts";
import { type Check, Interrupted, Run } from "./verify/check.ts";
import { checks } from "./verify/checks.ts";
import { Deployment, deploymentFault } from "./verify/deployment.ts";
import { type Options, optionsFrom, readVerifyFlags } from "./verify/options.ts";
import {
  deployReceiver,
  messageOf,
  type Receiver,
  receiverFault,
  startReceiverHere,
} from "./verify/receiver.ts";
import { tableText } from "./verify/report.ts";
import { runChecks } from "./verify/run-checks.ts";

const HELP = `npm run verify -- --url URL --key KEY [flags]    Shows whether a deployment does what it promises, in minutes.

  --url URL                its address; else $BREAKWATER_URL
  --key KEY                an API key with all scopes and no tenant; else $BREAKWATER_KEY
  --only NAME,…            run these checks alone
  --list                   print the checks and what they expect
  --receiver URL           use this receiver; otherwise one is deployed to your account, and removed in the end
  --receiver-token TOKEN   its token
  --soak DURATION          and then a steady rate for so long: 90s, 10m, 1h
  --soak-rate N            events a second (5)
  --missing-name URL       addresses that fail in a certain way, instead of the usual ones: a name that does not exist,
  --closed-port URL        a port that nothing listens at,
  --bad-certificate URL    an expired certificate,
  --dead-origin URL        and a host behind Cloudflare's proxy whose origin is down
  --config FILE, --env NAME   the deployment's configuration, to find what Cloudflare has billed (wrangler.toml)
  -h, --help               this

The exit code is 0 when all is well, 1 when something is not, 2 after a mistake in the command line.`;

const names = checks.map(({ name }) => name);

/** A local stack is on this machine or in its network; everything else is reached over the internet. */
function isLocal({ hostname }: URL): boolean {
  return (
    /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+|10\.\d+\.\d+\.\d+|192\.168\.\d+\.\d+)$/.test(hostname) ||
    /^172\.(1[6-9]|2\d|3[01])\.\d+\.\d+$/.test(hostname) ||
    /\.(localhost|local)$/.test(hostname)
  );
}

async function verify(options: Options): Promise<number> {
  const suffix = randomBytes(4).toString("hex");
  const interruption = handleSignals();
  const deployment = new Deployment(options.url, options.key, `verify-${suffix}`);
  const fault = await deploymentFault(deployment);
  if (fault !== undefined) throw new Error(`${fault}. Nothing has been created.`);
  const selected = checks.filter(({ name }) => options.only?.includes(name) ?? true);
  const startedAt = Date.now();
  let receiver: Receiver | undefined;
  let code = 1;
  try {
    receiver = await receiverFor(selected, options, suffix);
    console.log(`Verifying ${options.url.origin} with the tenant ${deployment.tenant}.`);
    const run = new Run({
      deployment,
      options,
      isLocal: isLocal(options.url),
      receiver,
      suffix,
      signal: interruption,
      note: (line) => console.log(`      … ${line}`),
    });
    const lines = await runChecks(selected, run, (line) => console.log(line));
    console.log(`\n${tableText(lines, Date.now() - startedAt)}`);
    code = lines.some(({ result }) => result === "FAIL") ? 1 : 0;
  } catch (error) {
    if (!(error instanceof Interrupted)) console.error(messageOf(error));
    code = error instanceof Interrupted ? 130 : 1;
  }
  const isClean = await removeAll(deployment, receiver);
  return isClean ? code : 1;
}

async function receiverFor(
  selected: readonly Check[],
  { receiver: given, url }: Options,
  suffix: string,
): Promise<Receiver | undefined> {
  if (!selected.some(({ usesReceiver }) => usesReceiver)) return undefined;
  if (given !== undefined) {
    const receiver = { ...given, remove: async () => {} };
    const fault = await receiverFault(receiver);
    if (fault === undefined) return receiver;
    throw new Error(`The receiver ${given.url} cannot be used: ${fault}. Nothing has been created.`);
  }
  const token = randomBytes(24).toString("base64url");
  if (isLocal(url)) {
    console.log("Starting the receiver on this machine …");
    return startReceiverHere(url, token);
  }
  const name = `breakwater-verify-${suffix}`;
  console.log(`Deploying the receiver as ${name} …`);
  return deployReceiver(name, token);
}

/** Removes what the run has made, each part whatever becomes of the others. Returns whether nothing is left. */
async function removeAll(deployment: Deployment, receiver: Receiver | undefined): Promise<boolean> {
  const results = await Promise.allSettled([deployment.deleteDestinations(), receiver?.remove()]);
  const [destinations] = results;
  if (destinations.status === "fulfilled")
    console.log(
      `Removed ${destinations.value} destinations${receiver === undefined ? "" : " and the receiver"}.`,
    );
  else console.error(`Destinations of the tenant ${deployment.tenant} are left; delete them by hand.`);
  for (const result of results) if (result.status === "rejected") console.error(messageOf(result.reason));
  return results.every(({ status }) => status === "fulfilled");
}

/** The first signal interrupts the checks, so that everything is removed; a second one ends the process. */
function handleSignals(): AbortSignal {
  const controller = new AbortController();
  const interrupt = () => {
    if (controller.signal.aborted) process.exit(130);
    console.error("Interrupted: removing what was made. Once more ends this at once.");
    controller.abort();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, interrupt);
  whenOrphaned(interrupt);
  return controller.signal;
}

let options: Options | undefined;
const read = () => {
  const flags = readVerifyFlags(process.argv.slice(2));
  if (!flags.values.help && !flags.values.list) options = optionsFrom(flags, process.env, names);
  return flags;
};
process.exit(
  await runScript(HELP, read, async () => {
    if (options !== undefined) return verify(options);
    const width = Math.max(...names.map((name) => name.length));
    for (const { name, expected } of checks) console.log(`${name.padEnd(width)}  ${expected}`);
    return 0;
  }),
);
