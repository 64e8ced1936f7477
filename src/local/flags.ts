/** The flags of the scripts for developers, and what is said of them. */
import { parseArgs } from "node:util";

type Flag = Readonly<{ type: "boolean" | "string"; short?: string }>;

export type Flags = Readonly<{
  /** The last value of each flag that was given. */
  values: Readonly<Record<string, string | boolean | undefined>>;
  /** Those that are not the script's own, as they were given. */
  others: readonly string[];
}>;

/** A mistake in what somebody has typed: for them to read, without a stack. */
export class UsageError extends Error {}

/**
 * Reads the script's own flags, and those of the program that it hands others on to.
 * @throws UsageError for a flag that neither knows, for one without its value, and for what is no flag
 */
export function readFlags(
  args: readonly string[],
  own: Readonly<Record<string, Flag>>,
  handedOn: Readonly<Record<string, Flag>> = {},
): Flags {
  const options = { help: { type: "boolean", short: "h" } as const, ...own, ...handedOn };
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
    const flag: Flag | undefined = options[name as "help"];
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

/** Runs a script: help for who asks, one line for who has mistyped, and the exit code. */
export async function runScript(
  help: string,
  read: () => Flags,
  script: (flags: Flags) => Promise<number>,
): Promise<number> {
  try {
    const flags = read();
    if (!flags.values.help) return await script(flags);
    console.log(help);
    return 0;
  } catch (error) {
    if (error instanceof UsageError) console.error(`${error.message}\n\n${help}`);
    else console.error(error instanceof Error ? error.message : error);
    return error instanceof UsageError ? 2 : 1;
  }
}

/** Where to look, and what to sign in with. */
export function whereabouts(url: string, key: string): string {
  return [`  Dashboard  ${url}/dashboard`, `  API docs   ${url}/docs`, `  Key        ${key}`].join("\n");
}
