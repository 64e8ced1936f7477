/** The command line of `npm run import:svix`. */
import { type Flags, readFlags, UsageError } from "../flags.ts";

export type ImportOptions = Readonly<{
  from: URL;
  token: string;
  to: URL;
  key: string;
  apply: boolean;
  setHeaders: boolean;
  /** Requests to each side at once. */
  concurrency: number;
  /** A file for the report. */
  report: string | undefined;
}>;

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;

export function readImportFlags(args: readonly string[]): Flags {
  return readFlags(args, {
    ...{ from: text, token: text, to: text, key: text, report: text, concurrency: text },
    ...{ apply: flag, "set-headers": flag },
  });
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * @param environment has `SVIX_TOKEN`, `BREAKWATER_URL` and `BREAKWATER_KEY` where the flags are left out
 * @throws UsageError that names the flag, what is wrong with it, and what is expected
 */
export function importOptionsFrom({ values }: Flags, environment: Environment): ImportOptions {
  const given = (name: string) => (typeof values[name] === "string" ? values[name] : undefined);
  const required = (name: string, otherwise: string | undefined, what: string): string => {
    const value = given(name) ?? otherwise;
    if (value) return value;
    throw new UsageError(`--${name} is missing: ${what}`);
  };
  const from = addressIn(
    "from",
    required("from", undefined, "the address of the Svix server, as https://api.eu.svix.com"),
  );
  const token = required(
    "token",
    environment.SVIX_TOKEN,
    "an API token of the Svix server; else $SVIX_TOKEN",
  );
  const to = addressIn(
    "to",
    required("to", environment.BREAKWATER_URL, "the address of the deployment; else $BREAKWATER_URL"),
  );
  const key = required(
    "key",
    environment.BREAKWATER_KEY,
    "an API key with all scopes and no tenant; else $BREAKWATER_KEY",
  );
  if (from.href === to.href) throw new UsageError("--from and --to are the same address");
  for (const [name, value] of [
    ["token", token],
    ["key", key],
  ] as const)
    if (!/^[!-~]+$/.test(value)) throw new UsageError(`--${name} has characters that no header takes`);
  return {
    ...{ from, token, to, key },
    apply: values.apply === true,
    setHeaders: values["set-headers"] === true,
    concurrency: countIn(given("concurrency") ?? "4"),
    report: given("report"),
  };
}

/** An address without the path of the API, which some add. */
function addressIn(name: string, given: string): URL {
  const url = URL.parse(given);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "")
    throw new UsageError(`--${name} is ${JSON.stringify(given)}; expected an address such as https://host`);
  return new URL(url.pathname.replace(/(\/api(\/v1)?)?\/*$/, "/"), url.origin);
}

function countIn(given: string): number {
  const count = Number(given);
  if (/^\d{1,2}$/.test(given) && count >= 1 && count <= 20) return count;
  throw new UsageError(`--concurrency is ${JSON.stringify(given)}; expected a whole number from 1 to 20`);
}
