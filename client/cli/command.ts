/** Commands: what they take, how that is read, and how `--help` shows it. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import type { Breakwater } from "../src/breakwater.ts";

export type CommandOption = Readonly<{
  help: string;
  /** The placeholder of its value, as in `--tenant <name>`; absent for a flag. */
  value?: string;
  /** One letter, as in `-f`. */
  short?: string;
  /** Whether it may be given several times. */
  isList?: true;
  isNumber?: true;
  choices?: readonly string[];
  /** The field of the API, or the query parameter, that it sets. */
  field?: string;
}>;

export type Command = Readonly<{
  /** One word or two: `deliveries why`. */
  name: string;
  /** Its arguments as `--help` shows them: `<id>`, `[file]`, `<id>...`. */
  args?: string;
  summary: string;
  /** Further help, as lines. */
  details?: string;
  options?: Readonly<Record<string, CommandOption>>;
  /** Returns the exit code; nothing for 0. */
  run(call: CommandCall): Promise<number | undefined> | Promise<void>;
}>;

/** The arguments of one run, and its connection. */
export type CommandCall = Readonly<{
  args: readonly string[];
  arg: string;
  text(name: string): string | undefined;
  /** The value of an option that the command needs. @throws CommandLineError without one */
  needed(name: string): string;
  /** The value of an option that is a number. @throws CommandLineError for another */
  number(name: string): number | undefined;
  /** The value of an option that is a whole number from 1 on. @throws CommandLineError for another */
  count(name: string): number | undefined;
  /** The values of an option that may be given several times; undefined without any. */
  list(name: string): readonly string[] | undefined;
  has(flag: string): boolean;
  /** The values of the options that are given, by their fields of the API. @throws CommandLineError */
  fields<T extends object>(): Partial<T>;
}> &
  Connection;

/** The deployment of the profile. @throws NotSignedIn without one */
export type Connection = Readonly<{ url: string; api: Breakwater }>;

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  unauthorized: 3,
  notFound: 4,
  conflict: 5,
  invalid: 6,
  unavailable: 7,
  /** The command has done its work, and the answer is no. */
  no: 8,
} as const;

const exitCodes = `  0  done
  1  failed for another reason
  2  the command line is wrong
  3  no key, or one that does not permit this
  4  not found
  5  conflict with the present state
  6  the request is invalid
  7  the deployment cannot be reached, or refuses for now
  8  the answer is no: a signature is wrong, a test failed, changes are left to apply`;

export class CommandLineError extends Error {}

export const globalOptions: Readonly<Record<string, CommandOption>> = {
  json: { help: "Print JSON: an object, or one line for each entry of a list" },
  profile: { value: "name", help: "The profile to use; $BREAKWATER_PROFILE or `default` otherwise" },
  help: { short: "h", help: "Show this help" },
};

export const listOptions: Readonly<Record<string, CommandOption>> = {
  limit: { value: "n", help: "Print at most n entries; 50 by default" },
  all: { help: "Print all entries" },
};

/**
 * Reads the arguments behind the command's name.
 * @throws CommandLineError for arguments that the command does not take
 */
export function readCall(
  command: Command,
  argv: readonly string[],
  connect: (profile: string | undefined) => Connection,
): CommandCall {
  const known = { ...command.options, ...globalOptions };
  const options = Object.fromEntries(
    Object.entries(known).map(([name, { value, isList, short }]) => [
      name,
      { type: value ? "string" : "boolean", ...(isList && { multiple: true }), ...(short && { short }) },
    ]),
  ) as ParseArgsConfig["options"] & object;
  const { values, positionals } = parsed(argv, options);
  if (!values.help) checkArguments(command, positionals);
  for (const [name, { choices }] of Object.entries(known))
    for (const value of [values[name] ?? []].flat())
      if (choices && !values.help && !choices.includes(String(value)))
        throw new CommandLineError(`--${name} is ${value}; expected one of ${choices.join(", ")}`);
  const text = (name: string) => values[name] as string | undefined;
  let connection: Connection | undefined;
  const connected = () => {
    connection ??= connect(text("profile"));
    return connection;
  };
  const number = (name: string) => {
    const value = text(name);
    if (value === undefined) return undefined;
    if (!/^\d+(\.\d+)?$/.test(value)) throw new CommandLineError(`--${name} is ${value}; expected a number`);
    return Number(value);
  };
  return {
    args: positionals,
    arg: positionals[0] ?? "",
    text,
    needed(name) {
      const value = text(name);
      if (value !== undefined) return value;
      throw new CommandLineError(`${command.name} needs --${name} <${known[name]?.value}>`);
    },
    number,
    count(name) {
      const value = number(name);
      if (value === undefined || (Number.isSafeInteger(value) && value >= 1)) return value;
      throw new CommandLineError(`--${name} is ${text(name)}; expected a whole number from 1 on`);
    },
    list: (name) => values[name] as string[] | undefined,
    has: (flag) => values[flag] === true,
    fields: <T extends object>() => {
      const given = Object.entries(known).flatMap(([name, { field, isNumber }]) => {
        const value = isNumber ? number(name) : values[name];
        return field === undefined || value === undefined ? [] : [[field, value]];
      });
      return Object.fromEntries(given) as Partial<T>;
    },
    get url() {
      return connected().url;
    },
    get api() {
      return connected().api;
    },
  };
}

function parsed(argv: readonly string[], options: ParseArgsConfig["options"] & object) {
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true });
  } catch (error) {
    throw new CommandLineError((error as Error).message);
  }
}

function checkArguments({ name, args = "" }: Command, given: readonly string[]): void {
  const expected = args.split(" ").filter((arg) => arg !== "");
  const least = expected.filter((arg) => arg.startsWith("<")).length;
  const most = args.endsWith("...") ? Number.POSITIVE_INFINITY : expected.length;
  if (given.length < least) throw new CommandLineError(`${name} needs ${args}`);
  if (given.length > most) throw new CommandLineError(`Unexpected argument: ${given[most]}`);
}

/** The command at the beginning of the arguments, and what follows its name. */
export function commandIn(commands: readonly Command[], argv: readonly string[]) {
  return commands
    .map((command) => ({ command, words: command.name.split(" ") }))
    .filter(({ words }) => words.every((word, at) => argv[at] === word))
    .map(({ command, words }) => ({ command, rest: argv.slice(words.length) }))[0];
}

export function helpOf({ name, args = "", summary, details, options = {} }: Command): string {
  const usage = ["breakwater", name, args, "[options]"].filter((part) => part !== "").join(" ");
  const lines = Object.entries({ ...options, ...globalOptions }).map(
    ([option, { value, help, choices, isList, short }]) => [
      `${short ? `-${short}, ` : ""}--${option}${value ? ` <${value}>` : ""}`,
      `${help}${choices ? `: ${choices.join(", ")}` : ""}${isList ? " (may be repeated)" : ""}`,
    ],
  );
  return [
    `${summary}.`,
    `Usage: ${usage}`,
    ...(details ? [details] : []),
    `Options:\n${aligned(lines)}`,
  ].join("\n\n");
}

/** The commands that begin with these words, with what each does. */
export function overviewOf(commands: readonly Command[], prefix = ""): string {
  const shown = commands.filter(({ name }) => prefix === "" || name.startsWith(`${prefix} `));
  const lines = shown.map(({ name, args = "", summary }) => [`${name} ${args}`.trim(), summary]);
  const head = `Usage: breakwater ${prefix ? `${prefix} ` : ""}<command> [options]`;
  const exits = prefix === "" ? [`Exit codes:\n${exitCodes}`] : [];
  const first = prefix === "" ? ["Begin with: breakwater login https://breakwater.example.com"] : [];
  const more = `breakwater <command> --help shows the options of a command.`;
  return [head, ...first, `Commands:\n${aligned(lines)}`, ...exits, more].join("\n\n");
}

function aligned(lines: readonly (readonly string[])[]): string {
  const width = Math.max(...lines.map(([left = ""]) => left.length));
  return lines.map(([left = "", right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}
