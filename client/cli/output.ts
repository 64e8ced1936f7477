/** The output of commands: tables and fields for people, JSON for programs. Progress goes to standard error. */
import type { ListEntry, ListPath, ListQuery } from "../src/breakwater.ts";
import { type Command, type CommandCall, type CommandOption, listOptions } from "./command.ts";
import { withDigits } from "./exact-numbers.ts";

export type Columns<T> = Readonly<Record<string, (entry: T) => unknown>>;

export function print(text: string): void {
  process.stdout.write(`${printable(withDigits(text))}\n`);
}

/** Writes a remark for people to standard error. */
export function remark(text: string): void {
  process.stderr.write(`${printable(text)}\n`);
}

/** Shows how far a long command is, in one line that overwrites itself; only on a terminal. */
export function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${printable(text)}`);
}

/** Foreign text may contain control characters, which a terminal would obey. */
function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "\ufffd");
}

/** One object: its fields below each other, or JSON. A command returns the result, which means success. */
export function printObject(call: CommandCall, value: object): void {
  print(call.has("json") ? JSON.stringify(value, null, 2) : fieldsOf(value));
}

function fieldsOf(value: object): string {
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  const width = Math.max(0, ...entries.map(([name]) => name.length));
  return entries.map(([name, one]) => `${name.padEnd(width)}  ${cell(one)}`).join("\n");
}

/** Entries as a table with these columns, or a line of JSON for each. */
export function printTable<T>(call: CommandCall, entries: readonly T[], columns: Columns<T>): void {
  if (call.has("json")) {
    for (const entry of entries) print(JSON.stringify(entry));
  } else if (entries.length > 0) print(tableOf(entries, columns));
}

const DEFAULT_LIMIT = 50;
const MAX_PAGE = 100;

/** A command that prints a list of the API. Its options are the list's filters. */
export function listCommand<P extends ListPath>(
  path: P,
  about: Pick<Command, "name" | "summary" | "options">,
  columns: Columns<ListEntry<P>>,
): Command {
  return {
    ...about,
    options: { ...about.options, ...listOptions },
    run: (call) => printList(call, path, columns),
  };
}

/** An option that leaves entries out. @param what is left: `events with this tag` */
export function filter(field: string, what: string, value = field): CommandOption {
  return { value, field, help: `Only ${what}` };
}

async function printList<P extends ListPath>(call: CommandCall, path: P, columns: Columns<ListEntry<P>>) {
  const most = call.has("all") ? Number.POSITIVE_INFINITY : (call.count("limit") ?? DEFAULT_LIMIT);
  const limit = String(Math.min(MAX_PAGE, most));
  // The API validates the filters: a newer one may know more values than this client.
  const query = { ...call.fields(), limit } as ListQuery<P>;
  const entries: ListEntry<P>[] = [];
  let isCut = false;
  for await (const entry of call.api.list(path, query)) {
    isCut = entries.length >= most;
    if (isCut) break;
    entries.push(entry);
    if (entries.length % MAX_PAGE === 0) progress(`${entries.length} read`);
  }
  progress("");
  printTable(call, entries, columns);
  if (entries.length === 0) remark("Nothing found.");
  if (isCut) remark(`There are more: --limit <n> or --all shows them.`);
}

export function tableOf<T>(entries: readonly T[], columns: Columns<T>): string {
  const names = Object.keys(columns);
  const rows = entries.map((entry) => names.map((name) => cell(columns[name]?.(entry))));
  const widths = names.map((name, at) => Math.max(name.length, ...rows.map((row) => row[at]?.length ?? 0)));
  return [names.map((name) => name.toUpperCase()), ...rows]
    .map((row) =>
      row
        .map((text, at) => text.padEnd(widths[at] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function cell(value: unknown): string {
  if (value === undefined || value === null) return "–";
  return (typeof value === "string" ? value : JSON.stringify(value)).replaceAll(/\s+/g, " ");
}
