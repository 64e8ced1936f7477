/**
 * A file with all of its mutants in it, each behind a switch (switch.ts), so that nothing is compiled or imported again
 * from one mutant to the next.
 *
 * A constant at a file's top level is evaluated once, at import. Here it becomes a variable that can be evaluated again,
 * for mutants of its value and of what its value is made of; whatever uses it says so, to find the tests that do.
 */
import { drizzleName, type Site } from "./mutators.ts";
import { child, childrenOf, list, type Node, parse, textOf, untyped } from "./syntax.ts";

export type Instrumentable = Readonly<{
  /** Relative to the repository. */
  file: string;
  source: string;
  sites: readonly Site[];
  /** The number of the file's first mutant; its others follow in the order of the sites. */
  firstId: number;
}>;

type Edit = Readonly<{ start: number; end: number; prefix: string; suffix: string }>;

/** @param resolved the file that an import leads to, relative to the repository; undefined: none of ours */
export function instrumented(
  { file, source, sites, firstId }: Instrumentable,
  resolved: (specifier: string) => string | undefined,
): string {
  const tree = parse(source);
  const body = list(tree, "body");
  const constants = constantsOf(body);
  const names = new Map([
    ...constants.map(({ name }) => [name, `${file}#${name}`] as const),
    ...importedNames(body, resolved),
  ]);
  // If two surround the same text, the first surrounds the second.
  const edits = [
    ...constants.flatMap((one) => constantEdits(one, file)),
    ...loopEdits(tree),
    ...siteEdits(sites, firstId, new Set(statementsIn(tree))),
    ...useEdits(tree, names),
  ];
  return `${PRELUDE}${drizzleImport(source)}${edited(source, edits)}`;
}

/** The source of tests, without mutants: only what it uses of the constants of other files is marked. */
export function marked(source: string, resolved: (specifier: string) => string | undefined): string {
  const tree = parse(source);
  return `${PRELUDE}${edited(source, useEdits(tree, new Map(importedNames(list(tree, "body"), resolved))))}`;
}

const PRELUDE = "const { m: __m, u: __u, s: __s, t: __t } = globalThis.__mutants;\n";

function drizzleImport(source: string): string {
  if (!/from "drizzle-orm"/.test(source)) return "";
  const names = ["lt", "lte", "gt", "gte"].map((name) => `${name} as ${drizzleName(name)}`);
  return `import { ${names.join(", ")} } from "drizzle-orm";\n`;
}

function edited(source: string, edits: readonly Edit[]): string {
  const sorted = edits.toSorted((a, b) => a.start - b.start || b.end - a.end);
  const insertions = sorted.flatMap(({ start, end, prefix, suffix }, order) => [
    { at: start, isEnd: false, order, text: prefix },
    { at: end, isEnd: true, order: -order, text: suffix },
  ]);
  insertions.sort((a, b) => a.at - b.at || Number(b.isEnd) - Number(a.isEnd) || a.order - b.order);
  let result = "";
  let from = 0;
  for (const { at, text } of insertions) {
    result += source.slice(from, at) + text;
    from = at;
  }
  return result + source.slice(from);
}

function siteEdits(sites: readonly Site[], firstId: number, statements: ReadonlySet<string>): Edit[] {
  let id = firstId;
  return sites.map(({ start, end, replacements }) => {
    if (statements.has(`${start} ${end}`))
      return { start, end, prefix: `{ if (!__m(${id++})) `, suffix: " }" };
    const choices = replacements.map((text) => `__m(${id++}) ? (${text}) : `);
    return { start, end, prefix: `(${choices.join("")}(`, suffix: "))" };
  });
}

function* statementsIn(node: Node): Generator<string> {
  if (node.type === "ExpressionStatement") yield `${node.start} ${node.end}`;
  for (const [, one] of childrenOf(node)) yield* statementsIn(one);
}

type Constant = Readonly<{ name: string; keyword: Node; value: Node }>;

/** The constants at the top level whose values may be evaluated again. */
function constantsOf(body: readonly Node[]): Constant[] {
  return body.flatMap((statement) => {
    const declaration =
      statement.type === "ExportNamedDeclaration" ? child(statement, "declaration") : statement;
    if (declaration?.type !== "VariableDeclaration" || declaration.kind !== "const") return [];
    const [declarator, ...others] = list(declaration, "declarations");
    const [target, value] = [child(declarator, "id"), child(declarator, "init")];
    if (others.length > 0 || target?.type !== "Identifier" || !value) return [];
    if (/Function|Class/.test(untyped(value).type)) return [];
    return [{ name: textOf(target, "name"), keyword: declaration, value }];
  });
}

function constantEdits({ name, keyword, value }: Constant, file: string): Edit[] {
  const key = JSON.stringify(`${file}#${name}`);
  return [
    // `const` becomes `let`, with a comment around the word so that only insertions are needed.
    { start: keyword.start, end: keyword.start + "const".length, prefix: "let /* ", suffix: " */" },
    {
      start: value.start,
      end: value.end,
      prefix: `__s(${key}, () => (`,
      suffix: `), (__v) => { ${name} = __v; })`,
    },
  ];
}

function importedNames(
  body: readonly Node[],
  resolved: (specifier: string) => string | undefined,
): Array<readonly [name: string, key: string]> {
  return body.flatMap((statement) => {
    if (statement.type !== "ImportDeclaration" || statement.importKind === "type") return [];
    const file = resolved(textOf(child(statement, "source"), "value"));
    if (file === undefined) return [];
    return list(statement, "specifiers")
      .filter(({ type, importKind }) => type === "ImportSpecifier" && importKind !== "type")
      .map((one) => {
        const key = `${file}#${textOf(child(one, "imported"), "name")}`;
        return [textOf(child(one, "local"), "name"), key] as const;
      });
  });
}

/** Every use of a constant is marked, by its name. */
function useEdits(tree: Node, keys: ReadonlyMap<string, string>): Edit[] {
  return usesIn(tree).flatMap(({ node, isShorthand }) => {
    const name = textOf(node, "name");
    const key = keys.get(name);
    if (key === undefined) return [];
    const use = `(__u(${JSON.stringify(key)}), `;
    return [{ start: node.start, end: node.end, prefix: isShorthand ? `${name}: ${use}` : use, suffix: ")" }];
  });
}

/** Whether a child binds names rather than reading them. */
function binds(node: Node, name: string, isPattern: boolean): boolean {
  if (/Function/.test(node.type)) return name === "params";
  if (node.type === "VariableDeclarator") return name === "id";
  if (node.type === "CatchClause") return name === "param";
  if (node.type === "AssignmentPattern") return name === "left";
  return isPattern;
}

function* declaredIn(node: Node, isPattern = false): Generator<string> {
  if (node.type === "ImportDeclaration") return;
  if (node.type === "Identifier" && isPattern) yield textOf(node, "name");
  for (const [name, one] of childrenOf(node))
    if (!isKey(node, name)) yield* declaredIn(one, binds(node, name, isPattern));
}

type Use = Readonly<{ node: Node; isShorthand: boolean }>;

/** The names that are read, but those that are declared again around them: within a function, a block or a loop. */
function usesIn(
  node: Node,
  hidden: ReadonlySet<string> = new Set(),
  isPattern = false,
  isShorthand = false,
): Use[] {
  if (/^(Import|ExportSpecifier|ExportAll|Labeled|Break|Continue)/.test(node.type)) return [];
  if (node.type === "Identifier")
    return isPattern || hidden.has(textOf(node, "name")) ? [] : [{ node, isShorthand }];
  const within = SCOPE.test(node.type) ? new Set([...hidden, ...declaredIn(node)]) : hidden;
  return childrenOf(node)
    .filter(([name]) => !isKey(node, name))
    .flatMap(([name, one]) => usesIn(one, within, binds(node, name, isPattern), node.shorthand === true));
}

const SCOPE = /Function|^(Block|For|Switch|Catch)/;

/** Whether a child is a name only: of a property, a function or a class. */
function isKey(node: Node, name: string): boolean {
  if (name === "key" || name === "property") return node.computed !== true;
  return name === "id" && /Function|Class/.test(node.type);
}

/** A loop that never ends is ended by its counter. */
function loopEdits(node: Node): Edit[] {
  const body = /^(For|ForIn|ForOf|While|DoWhile)Statement$/.test(node.type) ? child(node, "body") : undefined;
  const own = body ? [{ start: body.start, end: body.end, prefix: "{ __t(); ", suffix: " }" }] : [];
  return [...own, ...childrenOf(node).flatMap(([, one]) => loopEdits(one))];
}
