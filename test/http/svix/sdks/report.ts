/** How a story reports: one line of JSON for each step. */
import { setTimeout as sleep } from "node:timers/promises";

/** Thrown in a step: the SDK has nothing for it. */
export class NotInThisSdk extends Error {}

/** Runs the step and prints its outcome. */
export async function step(name: string, run: () => Promise<unknown>): Promise<void> {
  const outcome = await run().then(() => ({ outcome: "passed" }), outcomeOf);
  process.stdout.write(`${JSON.stringify({ step: name, ...outcome })}\n`);
}

function outcomeOf(error: unknown) {
  if (error instanceof NotInThisSdk) return { outcome: "absent" };
  const { code, body } = error as { code?: unknown; body?: unknown };
  if (typeof code !== "number") return { outcome: "failed", detail: (error as Error).message };
  return { outcome: code === 501 ? "unsupported" : "failed", detail: `${code} ${JSON.stringify(body)}` };
}

/** Polls until there is an answer, for up to 20 seconds. */
export async function until<T>(ask: () => Promise<T | undefined>): Promise<T> {
  const deadline = Date.now() + 20_000;
  while (Date.now() < deadline) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await sleep(100);
  }
  throw new Error("Not within 20 seconds");
}

type Received = Readonly<{ headers: Record<string, string>; body: string }>;

/** The requests that have come to the receiver's path, once there are so many. */
export async function received(path: string, count = 1): Promise<readonly Received[]> {
  const response = await fetch(`${process.env.RECEIVER_URL}/received?path=${path}&count=${count}`);
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as Received[];
}
