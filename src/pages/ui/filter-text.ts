/** A destination's filter in words: one line for each condition, as routing reads it (core/routing.ts). Pure. */
import { isJsonObject } from "../../core/json-value.ts";

/** Filters within filters at most, as routing has it. */
const MAX_DEPTH = 3;

/** The conditions, all of which must hold; undefined for an invalid filter, which takes everything. */
export function filterTexts(filter: unknown): readonly string[] | undefined {
  const lines = isJsonObject(filter) ? linesOf(filter, 1) : undefined;
  return lines?.every((line) => line !== undefined) && lines.length > 0
    ? (lines as readonly string[])
    : undefined;
}

type Line = string | undefined;

function linesOf(filter: Readonly<Record<string, unknown>>, depth: number): readonly Line[] {
  return Object.entries(filter).map(([path, given]) =>
    path === "or" && Array.isArray(given) && given.some(isJsonObject)
      ? alternativesText(given, depth + 1)
      : conditionText(path, given),
  );
}

/** "either (a is 1, and b is 2), or (c is 3)". */
function alternativesText(given: readonly unknown[], depth: number): Line {
  if (depth > MAX_DEPTH) return undefined;
  const parts = given.map((one) => (isJsonObject(one) ? linesOf(one, depth) : [undefined]));
  if (parts.flat().includes(undefined)) return undefined;
  return `either ${parts.map((lines) => (lines.length > 1 ? `(${lines.join(", and ")})` : lines[0])).join(", or ")}`;
}

function conditionText(path: string, given: unknown): Line {
  if (Array.isArray(given)) return `${path} is ${listText(given)}`;
  if (!isJsonObject(given)) return `${path} is ${valueText(given)}`;
  const { ignore_case: ignoresCase, ...operators } = given;
  const parts = Object.entries(operators).map(([operator, operand]) =>
    Object.hasOwn(operatorTexts, operator) ? operatorTexts[operator]?.(operand) : undefined,
  );
  if (parts.length === 0 || parts.includes(undefined)) return undefined;
  return `${path} ${parts.join(" and ")}${ignoresCase === true ? ", in upper or lower case" : ""}`;
}

const operatorTexts: Readonly<Record<string, (operand: unknown) => Line>> = {
  exists: (operand) => (operand === true ? "is there" : "is missing"),
  prefix: (operand) => `begins with ${valueText(operand)}`,
  suffix: (operand) => `ends with ${valueText(operand)}`,
  in: (operand) => (Array.isArray(operand) ? `is, or has, ${listText(operand)}` : undefined),
  gt: (operand) => `is more than ${valueText(operand)}`,
  gte: (operand) => `is at least ${valueText(operand)}`,
  lt: (operand) => `is less than ${valueText(operand)}`,
  lte: (operand) => `is at most ${valueText(operand)}`,
  not: denialText,
};

function denialText(operand: unknown): Line {
  if (Array.isArray(operand)) return `is not ${listText(operand)}`;
  if (!isJsonObject(operand)) return `is not ${valueText(operand)}`;
  const inner = conditionText("it", operand);
  return inner === undefined ? undefined : `is not one that ${inner.replace(/^it /, "")}`;
}

function listText(values: readonly unknown[]): string {
  const texts = values.map(valueText);
  return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} or ${texts.at(-1)}`;
}

function valueText(value: unknown): string {
  return typeof value === "string" ? `“${value}”` : JSON.stringify(value);
}
