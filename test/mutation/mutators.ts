/**
 * The mutants of a file: for each place, the texts that it is replaced by, one at a time. Types, messages of errors and
 * numbers stay as they are.
 */

import { isSql, sqlMutations } from "./sql.ts";
import { child, childrenOf, list, type Node, parse, textOf, untyped } from "./syntax.ts";

/** A place that can be replaced: an expression by others, or a statement by nothing. */
export type Site = Readonly<{ start: number; end: number; replacements: readonly string[] }>;

/** The replacement of a statement. */
export const NOTHING = "";

const OPERATORS = new Map(
  Object.entries({
    "===": ["!=="],
    "!==": ["==="],
    "<": ["<=", ">="],
    "<=": ["<", ">"],
    ">": [">=", "<="],
    ">=": [">", "<"],
    "+": ["-"],
    "-": ["+"],
    "*": ["/"],
    "/": ["*"],
    "%": ["*"],
    "&": ["|"],
    "|": ["&"],
    "<<": [">>"],
    ">>": ["<<"],
  }),
);

/** Methods without which their receiver is used as it is, and methods that are exchanged for others. */
const DROPPED = new Set([
  "filter",
  "slice",
  "sort",
  "toSorted",
  "reverse",
  "toReversed",
  "trim",
  "toLowerCase",
]);
const EXCHANGED = new Map(
  Object.entries({
    some: "every",
    every: "some",
    startsWith: "endsWith",
    endsWith: "startsWith",
    min: "max",
    max: "min",
  }),
);

/** Drizzle's conditions; the mutated file imports the others under these names. */
const DRIZZLE = new Map(Object.entries({ lt: "lte", lte: "lt", gt: "gte", gte: "gt" }));
export const drizzleName = (name: string) => `__${name}`;

type Context = Readonly<{
  source: string;
  /** Whether the node is an operand of an equality, the message of an error, or a link of an optional chain. */
  isCompared?: boolean;
  isThrown?: boolean;
  isLink?: boolean;
}>;

/** The sites of a file in the order of the source, an outer one before those within it. */
export function sitesOf(source: string, tree: Node = parse(source)): Site[] {
  const found = new Map<string, Site>();
  const add = ({ start, end }: Pick<Node, "start" | "end">, replacements: readonly string[]) => {
    const key = `${start} ${end}`;
    const texts = new Set([...(found.get(key)?.replacements ?? []), ...replacements]);
    texts.delete(source.slice(start, end));
    if (texts.size > 0) found.set(key, { start, end, replacements: [...texts] });
  };
  const visit = (node: Node, context: Context): void => {
    add(node, [...replacementsOf(node, context), ...(isRemovable(node) ? [NOTHING] : [])]);
    const tested = testOf(node);
    if (tested) add(tested, node.type === "WhileStatement" ? ["false"] : ["true", "false"]);
    for (const [name, one] of childrenOf(node))
      if (isMutable(node, name)) visit(one, contextOf(node, name, context));
  };
  visit(tree, { source });
  return [...found.values()].sort((a, b) => a.start - b.start || b.end - a.end);
}

function isMutable(node: Node, name: string): boolean {
  if (node.type === "ImportDeclaration" || node.type.startsWith("Export"))
    return name === "declaration" && node.type !== "ExportAllDeclaration";
  if (name === "key" || name === "property") return node.computed === true;
  return !(node.type === "TaggedTemplateExpression" && name === "quasi") && name !== "label";
}

function contextOf(node: Node, name: string, { source, isThrown, isLink }: Context): Context {
  const isEquality = node.type === "BinaryExpression" && /^[!=]==?$/.test(textOf(node, "operator"));
  const isChain = node.type === "ChainExpression" || isLink;
  return {
    source,
    isCompared: isEquality,
    isThrown: isThrown === true || node.type === "ThrowStatement",
    isLink: isChain === true && ["expression", "callee", "object"].includes(name),
  };
}

/** The condition of an `if`, a loop or a conditional expression. */
function testOf(node: Node): Node | undefined {
  return /^(If|While|For)Statement$|^ConditionalExpression$/.test(node.type)
    ? child(node, "test")
    : undefined;
}

/** Whether a statement may be left out: calls and assignments. */
function isRemovable(node: Node): boolean {
  const expression = child(node, "expression");
  if (node.type !== "ExpressionStatement" || !expression || node.directive) return false;
  const called = child(expression, "callee");
  return called?.type !== "Super";
}

function replacementsOf(node: Node, context: Context): string[] {
  const text = (one: Node | undefined) => (one ? context.source.slice(one.start, one.end) : "");
  switch (node.type) {
    case "BinaryExpression":
      return binary(node, context.source);
    case "LogicalExpression":
      return [text(child(node, "left")), text(child(node, "right"))];
    case "UnaryExpression":
      return ["!", "-", "~"].includes(textOf(node, "operator")) ? [text(child(node, "argument"))] : [];
    case "AssignmentExpression":
      return assignment(node, text);
    case "UpdateExpression": {
      const operator = textOf(node, "operator");
      return [text(node).replace(operator, operator === "++" ? "--" : "++")];
    }
    case "ArrayExpression":
      return list(node, "elements").length > 0 ? ["[]"] : [];
    case "Literal":
      return literal(node, context);
    case "TemplateLiteral":
      return template(node, context);
    case "TaggedTemplateExpression":
      return isSqlTag(node) ? taggedSql(node, context.source) : [];
    case "CallExpression":
      return context.isLink ? [] : call(node, text);
    default:
      return [];
  }
}

type Text = (node: Node | undefined) => string;

function binary(node: Node, source: string): string[] {
  const [left, right] = [child(node, "left"), child(node, "right")];
  const operator = textOf(node, "operator");
  const isText = [left, right].some((one) => one && isString(untyped(one)));
  if (!left || !right || (operator === "+" && isText)) return [];
  // Parentheses are outside of the operands.
  const between = source.slice(left.end, right.start);
  return (OPERATORS.get(operator) ?? []).map(
    (other) =>
      source.slice(node.start, left.end) +
      between.replace(operator, other) +
      source.slice(right.start, node.end),
  );
}

function isString(node: Node): boolean {
  return node.type === "TemplateLiteral" || typeof node.value === "string";
}

function assignment(node: Node, text: Text): string[] {
  const exchanged = { "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=" }[textOf(node, "operator")];
  return exchanged ? [`${text(child(node, "left"))} ${exchanged} ${text(child(node, "right"))}`] : [];
}

function literal(node: Node, { isCompared, isThrown }: Context): string[] {
  const { value } = node;
  if (typeof value === "boolean") return [String(!value)];
  if (typeof value !== "string" || value === "" || isThrown) return [];
  if (isSql(value)) return sqlMutations(value).map((one) => JSON.stringify(one));
  return isCompared ? [] : ['""'];
}

/** Where the values of a template begin in the private use area. */
const FIRST_VALUE = 0xe000;

function template(node: Node, { source, isThrown, isCompared }: Context): string[] {
  const raw = source.slice(node.start + 1, node.end - 1);
  if (isThrown || isCompared || raw === "") return [];
  const { text, restored } = withoutValues(node, source);
  return isSql(text) ? sqlMutations(text).map((one) => `\`${restored(one)}\``) : ['""'];
}

/** The text of a template with a character for each value, and the way back. */
function withoutValues(node: Node, source: string) {
  const quasis = list(node, "quasis");
  const values = list(node, "expressions").map(({ start, end }) => source.slice(start, end));
  const text = quasis
    .map(({ value }, i) => {
      const raw = (value as { raw: string }).raw;
      return i < values.length ? raw + String.fromCharCode(FIRST_VALUE + i) : raw;
    })
    .join("");
  const restored = (mutated: string) =>
    mutated.replace(/[\uE000-\uF8FF]/g, (one) => `\${${values[one.charCodeAt(0) - FIRST_VALUE]}}`);
  return { text, restored };
}

function isSqlTag(node: Node): boolean {
  return textOf(child(node, "tag"), "name") === "sql";
}

function taggedSql(node: Node, source: string): string[] {
  const quasi = child(node, "quasi");
  if (!quasi) return [];
  const before = source.slice(node.start, quasi.start);
  const { text, restored } = withoutValues(quasi, source);
  return sqlMutations(text).map((one) => `${before}\`${restored(one)}\``);
}

function call(node: Node, text: Text): string[] {
  const callee = child(node, "callee");
  const given = list(node, "arguments");
  const name = textOf(callee, "name");
  const all = given.map(text);
  if (["and", "or"].includes(name) && given.length > 1)
    return given.map((_, i) => `${name}(${all.filter((_, j) => j !== i).join(", ")})`);
  const boundary = DRIZZLE.get(name);
  if (boundary && given.length === 2) return [`${drizzleName(boundary)}(${all.join(", ")})`];
  const method = textOf(child(callee, "property"), "name");
  if (callee?.type !== "MemberExpression" || callee.optional === true) return [];
  const receiver = text(child(callee, "object"));
  const other = EXCHANGED.get(method);
  return [
    ...(DROPPED.has(method) ? [receiver] : []),
    ...(other ? [`${receiver}.${other}(${all.join(", ")})`] : []),
  ];
}
