/** Command lines of the scripts for developers: flags, help, errors and exit codes. */
import { parseArgs } from "node:util";
import { whenOrphaned } from "./process-groups.ts";

export type Flag = Readonly<{ type: "boolean" | "string"; short?: string }>;

const HELP: Flag = { type: "boolean", short: "h" };

export type Flags = Readonly<{
  /** The last value of each flag that was given. */
  values: Readonly<Record<string, string | boolean | undefined>>;
  /** The flags for the program that the script starts, as they were given. */
  others: readonly string[];
}>;

/** A mistake in the command line; printed without a stack trace. */
export class UsageError extends Error {}

/**
 * The flags that a help text describes, each at the beginning of a line, or after another one and a comma: `-c,
 * --config FILE`. A capital word after a flag stands for its value.
 */
export function flagsIn(help: string): Readonly<Record<string, Flag>> {
  const heads = help.split("\n").flatMap((line) => /^ {2}(-.*?)(?: {2}|$)/.exec(line)?.[1] ?? []);
  const found = heads.join(" ").matchAll(/(?:-(\w), )?--(?:no-)?([\w-]+)( [A-Z])?/g);
  return Object.fromEntries(
    [...found].map(([, short, name, value]) => [
      name,
      { type: value ? "string" : "boolean", ...(short && { short }) },
    ]),
  );
}

/**
 * Reads the script's own flags, and separates those that it passes on to another program.
 * @throws UsageError for an unknown flag, a missing or superfluous value, and a positional argument
 */
export function readFlags(
  args: readonly string[],
  own: Readonly<Record<string, Flag>>,
  passedOn: Readonly<Record<string, Flag>> = {},
): Flags {
  const options: Readonly<Record<string, Flag>> = { help: HELP, ...own, ...passedOn };
  const { tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    tokens: true,
    allowNegative: true,
  });
  const values: Record<string, string | boolean | undefined> = {};
  const others: string[] = [];
  for (const token of tokens) {
    if (token.kind === "option-terminator") continue;
    if (token.kind === "positional") throw new UsageError(`Unexpected argument: ${token.value}`);
    const { name, rawName } = token;
    const isNegated = rawName === `--no-${name}`;
    const flag = options[name];
    if (!flag || (isNegated && flag.type !== "boolean")) throw new UsageError(`Unknown flag: ${rawName}`);
    if (flag.type === "string" && token.value === undefined) throw new UsageError(`${rawName} needs a value`);
    if (flag.type === "boolean" && token.value !== undefined)
      throw new UsageError(`${rawName} takes no value`);
    values[name] = flag.type === "string" ? token.value : !isNegated;
    if (!(name in own) && name !== "help")
      others.push(rawName, ...(token.value === undefined ? [] : [token.value]));
  }
  return { values, others };
}

type Values = Flags["values"];

/** The value of a flag that takes one. */
export function textFlag(values: Values, name: string): string | undefined {
  const value = values[name];
  return typeof value === "string" ? value : undefined;
}

/** @throws UsageError when the flag is not a whole number from `least` to `most` */
export function numberFlag(values: Values, name: string, least: number, most: number): number | undefined {
  const value = textFlag(values, name);
  if (value === undefined) return undefined;
  const number = Number(value);
  if (/^\d+$/.test(value) && number >= least && number <= most) return number;
  throw new UsageError(
    `--${name} is ${JSON.stringify(value)}; expected a whole number from ${least} to ${most}`,
  );
}

/** @throws UsageError when the flag is not an http(s) address, or contains a user's name */
export function addressFlag(name: string, given: string): URL {
  const url = URL.parse(given);
  if (url && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "") return url;
  throw new UsageError(`--${name} is ${JSON.stringify(given)}; expected an address such as https://host`);
}

/**
 * Returns a signal that aborts at the first interrupt, so that the script can clean up; a second interrupt ends the
 * process.
 */
export function interruption(onFirst = () => {}): AbortSignal {
  const controller = new AbortController();
  const interrupt = () => {
    if (controller.signal.aborted) process.exit(130);
    onFirst();
    controller.abort();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, interrupt);
  whenOrphaned(interrupt);
  return controller.signal;
}

/** Runs a script and returns its exit code: 0 after --help, 2 after a mistake in the command line. */
export async function runScript(
  help: string,
  script: (flags: Flags) => Promise<number>,
  read = () => readFlags(process.argv.slice(2), flagsIn(help)),
): Promise<number> {
  try {
    const flags = read();
    if (!flags.values.help) return await script(flags);
    console.log(help);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) return reportFailure(() => Promise.reject(error));
    console.error(`${error.message}\n\n${help}`);
    return 2;
  }
}

/** Returns 0, or 1 after printing the error's message without its stack trace. */
export async function reportFailure(script: () => Promise<void>): Promise<number> {
  try {
    await script();
    return 0;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  }
}

/** The addresses of a running stack, and the key. */
export function addressLines(url: string, key: string): string {
  return [`  Dashboard  ${url}/dashboard`, `  API docs   ${url}/docs`, `  Key        ${key}`].join("\n");
}
