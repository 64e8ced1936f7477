/** The syntax tree of a TypeScript file, as far as the mutators need it: ESTree, parsed by what Vite parses with. */
import { parseAst } from "vitest/node";

export type Node = Readonly<{ type: string; start: number; end: number }> & Readonly<Record<string, unknown>>;

export function parse(code: string): Node {
  return parseAst(code, { lang: "ts" }) as unknown as Node;
}

/** A child by its name. */
export function child(node: Node | undefined, name: string): Node | undefined {
  const value = node?.[name];
  return isNode(value) ? value : undefined;
}

/** Children in a list, without the holes of arrays and patterns. */
export function list(node: Node, name: string): readonly Node[] {
  const value = node[name];
  return Array.isArray(value) ? value.filter(isNode) : [];
}

/** The text of a property, such as an operator or the name of an identifier. */
export function textOf(node: Node | undefined, name: string): string {
  const value = node?.[name];
  return typeof value === "string" ? value : "";
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

const TYPED = new Set(["TSAsExpression", "TSSatisfiesExpression", "TSNonNullExpression"]);
const TYPES = new Set([
  "typeAnnotation",
  "typeArguments",
  "typeParameters",
  "returnType",
  "superTypeArguments",
]);

/** The children that run: types have none. */
export function childrenOf(node: Node): ReadonlyArray<readonly [name: string, child: Node]> {
  if (node.type.startsWith("TS") && !TYPED.has(node.type)) return [];
  return Object.entries(node).flatMap(([name, value]) => {
    if (TYPES.has(name)) return [];
    const nodes = Array.isArray(value) ? value : [value];
    return nodes.filter(isNode).map((one) => [name, one] as const);
  });
}

/** The expression without `as`, `satisfies` and `!`. */
export function untyped(node: Node): Node {
  const inner = TYPED.has(node.type) ? child(node, "expression") : undefined;
  return inner ? untyped(inner) : node;
}
