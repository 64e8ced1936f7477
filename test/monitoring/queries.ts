/** The selections of the dashboard and the alert rules, read from their PromQL by its grammar. */
import { readFileSync } from "node:fs";
import { parser } from "@prometheus-io/lezer-promql";
import { parse } from "yaml";

const folder = new URL("../../monitoring/", import.meta.url).pathname;
const read = (name: string) => readFileSync(folder + name, "utf8");

export type Query = Readonly<{
  /** The panel or the alert. */
  of: string;
  expr: string;
}>;

export type Matcher = Readonly<{ label: string; op: string; value: string }>;

export type Asked = Readonly<{
  /** The series that it selects. */
  selected: readonly Readonly<{ metric: string; matchers: readonly Matcher[] }>[];
  /** Labels that it groups or joins by. */
  grouped: readonly string[];
  /** Whether the grammar has taken all of it. */
  isSound: boolean;
}>;

type Rule = Readonly<{ alert: string; expr: string; annotations: Readonly<Record<string, string>> }>;
type Panel = Readonly<{ title: string; targets?: readonly Readonly<{ expr: string }>[] }>;

export function alertQueries(): readonly Query[] {
  const { groups } = parse(read("alerts.yml")) as { groups: readonly { rules: readonly Rule[] }[] };
  const rules = groups.flatMap((group) => group.rules);
  return rules.flatMap(({ alert, expr, annotations }) => [
    { of: alert, expr },
    ...Object.values(annotations).flatMap((text) => queriesIn(text).map((expr) => ({ of: alert, expr }))),
  ]);
}

/** The queries of an annotation: `{{ range query "…" }}`. */
function queriesIn(annotation: string): string[] {
  return [...annotation.matchAll(/\bquery "((?:[^"\\]|\\.)*)"/g)].map(([, expr = ""]) =>
    expr.replaceAll('\\"', '"'),
  );
}

/** The names of the alerts whose annotations name destinations. */
export function alertsThatName(): readonly string[] {
  const { groups } = parse(read("alerts.yml")) as { groups: readonly { rules: readonly Rule[] }[] };
  const names = (text: string) => /\{\{ ?\$?\.?[lL]abels\.destination/.test(text);
  return groups.flatMap(({ rules }) =>
    rules.flatMap(({ alert, annotations }) => (Object.values(annotations).some(names) ? [alert] : [])),
  );
}

export function dashboardQueries(): readonly Query[] {
  const { panels, templating } = JSON.parse(read("grafana-dashboard.json")) as {
    panels: readonly Panel[];
    templating: { list: readonly { name: string; definition?: string }[] };
  };
  const ofPanels = panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ of: title, expr: expr.replaceAll("$__rate_interval", "5m") })),
  );
  const ofVariables = templating.list.flatMap(({ name, definition }) => {
    // `label_values(metric, label)` is Grafana's own; in PromQL it is a grouping.
    const [, metric, label] = /^label_values\((\w+), (\w+)\)$/.exec(definition ?? "") ?? [];
    return metric ? [{ of: `$${name}`, expr: `count by (${label}) (${metric})` }] : [];
  });
  return [...ofPanels, ...ofVariables];
}

export function askedBy({ expr }: Query): Asked {
  const selected: { metric: string; matchers: Matcher[] }[] = [];
  const grouped: string[] = [];
  let isSound = true;
  const text = (node: { from: number; to: number }) => expr.slice(node.from, node.to);
  parser.parse(expr).iterate({
    enter: ({ type, node }) => {
      if (type.isError) isSound = false;
      if (type.name === "GroupingLabels") grouped.push(...node.getChildren("LabelName").map(text));
      if (type.name !== "VectorSelector") return;
      const matchers = node.getChild("LabelMatchers")?.getChildren("UnquotedLabelMatcher") ?? [];
      selected.push({
        metric: text(node.getChild("Identifier") ?? node),
        matchers: matchers.map((matcher) => {
          const [label = "", op = "", value = '""'] = ["LabelName", "MatchOp", "StringLiteral"].map(
            (part) => {
              const child = matcher.getChild(part);
              return child ? text(child) : undefined;
            },
          );
          return { label, op, value: JSON.parse(value) as string };
        }),
      });
    },
  });
  return { selected, grouped, isSound };
}
