/** The results of the checks: figures for figures.md, and counter-examples for counter-examples.txt. */
import { readFileSync } from "node:fs";
import { type Exploration, explore, type Model } from "./explorer.ts";

/** Each model has states of its own; `check` explores one. */
export type Checked = Readonly<{ name: string; check: () => Promise<Exploration> }>;

/** Broken on purpose. */
export type Variant = Checked;

export function checked<State>(name: string, model: () => Model<State>): Checked {
  return { name, check: () => explore(model()) };
}

export type Group = Readonly<{
  title: string;
  small: readonly Checked[];
  deep: readonly Checked[];
  broken: readonly Variant[];
}>;

/** The line of a table in figures.md. */
export function lineOf({ name }: Checked, { states, transitions, depth }: Exploration): string {
  const figures = [states, transitions, depth].map((n) => n.toLocaleString("en-US"));
  return `| ${name} | ${figures.join(" | ")} |`;
}

/** The counter-example of a broken variant, as counter-examples.txt has it. */
export function counterExampleText({ name }: Variant, { counterExample }: Exploration): string {
  if (!counterExample) throw new Error(`No counter-example is found for: ${name}`);
  const { steps, what } = counterExample;
  const lines = steps.map((step, i) => `${i + 1}. ${step}`);
  return [`${name}:`, ...lines, `→ ${what}`].join("\n");
}

export const FIGURES = `${import.meta.dirname}/figures.md`;
export const COUNTER_EXAMPLES = `${import.meta.dirname}/counter-examples.txt`;

export function figuresText(): string {
  return readFileSync(FIGURES, "utf8");
}

export function counterExamples(): string {
  return readFileSync(COUNTER_EXAMPLES, "utf8");
}
