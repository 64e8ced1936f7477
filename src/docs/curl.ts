/** A request that one can paste into a shell, made of an operation's examples. */
import type { Method, Operation, Parameter } from "../api/document.ts";
import { quoted } from "../dashboard/shell.ts";

type Named = Readonly<{ method: Method; path: string; operation: Operation; origin: string }>;

/** `$KEY` stands for the key: an example is copied, and a key has no business in a page. */
export function curlOf({ method, path, operation, origin }: Named): string {
  const { security, parameters = [], requestBody } = operation;
  const body = requestBody?.content["application/json"]?.example;
  return [
    [`curl ${flagOf(method, body)}${word(`${origin}${filled(path, parameters)}`)}`],
    security.length > 0 ? ['-H "Authorization: Bearer $KEY"'] : [],
    body === undefined ? [] : [`--json ${word(JSON.stringify(body, null, 2).replaceAll("\n", "\n  "))}`],
  ]
    .flat()
    .join(" \\\n  ");
}

/** What curl would not do by itself. */
function flagOf(method: Method, body: unknown): string {
  const itself = body === undefined ? "get" : "post";
  return method === itself ? "" : `-X ${method.toUpperCase()} `;
}

function filled(path: string, parameters: readonly Parameter[]): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(parameters.find((parameter) => parameter.name === name)?.example ?? name)),
  );
}

/** Quoted where it has to be: most addresses read better without. */
function word(text: string): string {
  return /^[\w:/.-]+$/.test(text) ? text : quoted(text);
}
