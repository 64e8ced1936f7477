/** Where a profile's time went, told in words of the code. */
import type { Profile, ProfileNode } from "./profiler.ts";

export type Cost = Readonly<{ name: string; us: number }>;

const IDLE = ["(idle)", "(root)"];

/** Time on top of the stack, by function, the dearest first. What is not JavaScript is the runtime's. */
export function costsOf(profile: Profile): Cost[] {
  return summed(profile, (node) => nameOf(node));
}

function summed({ nodes, samples, timeDeltas }: Profile, nameFor: (node: ProfileNode) => string): Cost[] {
  const names = new Map(nodes.map((node) => [node.id, nameFor(node)]));
  const idle = new Set(nodes.filter(isIdle).map(({ id }) => id));
  const sums = new Map<string, number>();
  for (const [i, id] of samples.entries()) {
    if (idle.has(id)) continue;
    const name = names.get(id) ?? "";
    sums.set(name, (sums.get(name) ?? 0) + (timeDeltas[i] ?? 0));
  }
  return [...sums].map(([name, us]) => ({ name, us })).toSorted((a, b) => b.us - a.us);
}

function isIdle({ callFrame }: ProfileNode): boolean {
  return IDLE.includes(callFrame.functionName);
}

function nameOf({ callFrame: { functionName, url, lineNumber } }: ProfileNode): string {
  const file = url.split("/").at(-1) ?? "";
  return `${functionName || "(anonymous)"}${file ? ` ${file}:${lineNumber + 1}` : ""}`;
}
