/** One verification: a receiver, the checks, the table, and the removal of everything that it has made. */
import { randomBytes } from "node:crypto";
import { type Check, CheckInterrupted, Run } from "./check.ts";
import { checks } from "./checks.ts";
import { DeploymentUnderTest, deploymentFault } from "./deployment.ts";
import type { VerifyOptions } from "./options.ts";
import {
  deployReceiver,
  errorMessage,
  receiverFault,
  startReceiverHere,
  type VerifyReceiver,
} from "./receiver.ts";
import { tableText } from "./report.ts";
import { runChecks } from "./run-checks.ts";

/** A local stack is on this machine or in its network; everything else is reached over the internet. */
function isLocal({ hostname }: URL): boolean {
  return (
    /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+|10\.\d+\.\d+\.\d+|192\.168\.\d+\.\d+)$/.test(hostname) ||
    /^172\.(1[6-9]|2\d|3[01])\.\d+\.\d+$/.test(hostname) ||
    /\.(localhost|local)$/.test(hostname)
  );
}

type Print = (line: string) => void;

/**
 * Verifies the deployment, and removes what it has made, also after a failure or an interruption.
 * @returns the exit code: 0 when all is well, 1 when something is not or is left behind, 130 after an interruption
 * @throws when the deployment cannot be verified; then nothing has been created
 */
export async function verify(options: VerifyOptions, interruption: AbortSignal, print: Print) {
  const suffix = randomBytes(4).toString("hex");
  const deployment = new DeploymentUnderTest(options.url, options.key, `verify-${suffix}`);
  const fault = await deploymentFault(deployment);
  if (fault !== undefined) throw new Error(`${fault}. Nothing has been created.`);
  const selected = checks.filter(({ name }) => options.only?.includes(name) ?? true);
  const startedAt = Date.now();
  let receiver: VerifyReceiver | undefined;
  let code = 1;
  try {
    receiver = await receiverFor(selected, options, suffix, print);
    print(`Verifying ${options.url.origin} with the tenant ${deployment.tenant}.`);
    const run = new Run({
      deployment,
      options,
      isLocal: isLocal(options.url),
      receiver,
      suffix,
      signal: interruption,
      note: (line) => print(`      … ${line}`),
    });
    const lines = await runChecks(selected, run, print);
    print(`\n${tableText(lines, Date.now() - startedAt)}`);
    code = lines.some(({ result }) => result === "FAIL") ? 1 : 0;
  } catch (error) {
    if (!(error instanceof CheckInterrupted)) console.error(errorMessage(error));
    code = error instanceof CheckInterrupted ? 130 : 1;
  }
  const isClean = await removeAll(deployment, receiver, print);
  return isClean ? code : 1;
}

async function receiverFor(
  selected: readonly Check[],
  { receiver: given, url }: VerifyOptions,
  suffix: string,
  print: Print,
): Promise<VerifyReceiver | undefined> {
  if (!selected.some(({ usesReceiver }) => usesReceiver)) return undefined;
  if (given !== undefined) {
    const fault = await receiverFault(given);
    if (fault === undefined) return given;
    throw new Error(`The receiver ${given.url} cannot be used: ${fault}. Nothing has been created.`);
  }
  const token = randomBytes(24).toString("base64url");
  if (isLocal(url)) {
    print("Starting the receiver on this machine …");
    return startReceiverHere(url, token);
  }
  const name = `breakwater-verify-${suffix}`;
  print(`Deploying the receiver as ${name} …`);
  return deployReceiver(name, token);
}

/** Removes what the run has made, each part even if another fails. Returns whether nothing is left. */
async function removeAll(
  deployment: DeploymentUnderTest,
  receiver: VerifyReceiver | undefined,
  print: Print,
): Promise<boolean> {
  const results = await Promise.allSettled([
    deployment.deleteDestinations().then((count) => print(`Removed ${count} destinations.`)),
    receiver?.remove?.().then(() => print("Removed the receiver.")),
  ]);
  const [destinations] = results;
  if (destinations.status === "rejected")
    console.error(`Destinations of the tenant ${deployment.tenant} are left; delete them by hand.`);
  for (const result of results) if (result.status === "rejected") console.error(errorMessage(result.reason));
  return results.every(({ status }) => status === "fulfilled");
}
