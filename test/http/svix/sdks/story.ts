/** Runs the story of an SDK, and reads the outcomes of its steps. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Program, Sdk } from "./sdks.ts";
import type { Stack } from "./stack.ts";
import { steps } from "./steps.ts";

export type Outcome = Readonly<{
  /** `absent`: the SDK has no method for it. `unsupported`: Breakwater has answered 501. */
  outcome: "passed" | "failed" | "absent" | "unsupported";
  detail?: string;
}>;

/** By the names of the steps, in their order. */
export type Outcomes = ReadonlyMap<string, Outcome>;

/** The outcome of each step. A step that the program has not come to has failed. */
export async function runStory(sdk: Sdk, program: Program, stack: Stack): Promise<Outcomes> {
  const { url, key, receiverUrl } = stack;
  const own = { BREAKWATER_URL: url, BREAKWATER_KEY: key, RECEIVER_URL: receiverUrl, RUN: sdk.run };
  const env = { ...process.env, ...program.env, ...own };
  const child = spawn(program.command, program.args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const printed = new Map<string, Outcome>();
  const others: string[] = [];
  const read = (line: string) => {
    const found = lineOf(line);
    if (found === undefined) others.push(line);
    else printed.set(found.step, found);
  };
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", read);
  const ended = await new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code) => resolve(`it has ended with ${code}`));
  });
  const detail = [`Not reached: ${ended}`, ...others.slice(-20)].join("\n");
  const unknown = [...printed.keys()].filter((name) => !steps.some((step) => step.name === name));
  if (unknown.length > 0) throw new Error(`${sdk.name} has steps of its own: ${unknown.join(", ")}`);
  return new Map(steps.map(({ name }) => [name, printed.get(name) ?? { outcome: "failed", detail }]));
}

function lineOf(line: string): (Outcome & { step: string }) | undefined {
  if (!/^\{.*"step": ?"/.test(line)) return undefined;
  return JSON.parse(line) as Outcome & { step: string };
}

/** Why an SDK does not work, one line for each step; empty where it does. */
export function failuresOf(outcomes: Outcomes): string[] {
  return steps.flatMap(({ name }) => {
    const { outcome, detail = "" } = outcomes.get(name) ?? { outcome: "failed" };
    return outcome === "passed" || outcome === "absent" ? [] : [`${name}: ${detail}`];
  });
}
