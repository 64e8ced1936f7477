/** The command line of `npm run import:svix`. */
import { addressFlag, type Flags, numberFlag, textFlag, UsageError } from "../flags.ts";

export type ImportOptions = Readonly<{
  from: URL;
  token: string;
  to: URL;
  key: string;
  apply: boolean;
  setHeaders: boolean;
  /** Requests to each side at once. */
  concurrency: number;
  report: string | undefined;
}>;

export const importHelp = `npm run import:svix -- --from URL --token TOKEN --to URL --key KEY [flags]    Copies a Svix server's configuration.

  --from URL         the Svix server: https://api.eu.svix.com, or your own
  --token TOKEN      its API token; else $SVIX_TOKEN
  --to URL           the deployment of Breakwater; else $BREAKWATER_URL
  --key KEY          an API key with all scopes and no tenant; else $BREAKWATER_KEY
  --apply            apply the plan; without this flag it is only printed
  --set-headers      also set the headers of existing endpoints, whose values cannot be compared
  --report FILE      write each object's new id, and what has no counterpart, as JSON
  --concurrency N    requests to each side at once, 1 to 20 (4)
  -h, --help         show this help

It can be interrupted and run again: it continues, and creates nothing twice.
The exit code is 0 when everything was copied, 1 when something was not read or not copied, 2 after a mistake in the command line.`;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * @param environment has `SVIX_TOKEN`, `BREAKWATER_URL` and `BREAKWATER_KEY` where the flags are left out
 * @throws UsageError that names the flag, what is wrong with it, and what is expected
 */
export function importOptionsFrom({ values }: Flags, environment: Environment): ImportOptions {
  const required = (name: string, otherwise: string | undefined, what: string): string => {
    const value = textFlag(values, name) ?? otherwise;
    if (value) return value;
    throw new UsageError(`--${name} is missing: ${what}`);
  };
  const { SVIX_TOKEN, BREAKWATER_URL, BREAKWATER_KEY } = environment;
  const source = "the address of the Svix server, as https://api.eu.svix.com";
  const from = apiAt("from", required("from", undefined, source));
  const token = required("token", SVIX_TOKEN, "an API token of the Svix server; else $SVIX_TOKEN");
  const target = "the address of the deployment; else $BREAKWATER_URL";
  const to = apiAt("to", required("to", BREAKWATER_URL, target));
  const keyIs = "an API key with all scopes and no tenant; else $BREAKWATER_KEY";
  const key = required("key", BREAKWATER_KEY, keyIs);
  if (from.href === to.href) throw new UsageError("--from and --to are the same address");
  for (const [name, value] of Object.entries({ token, key }))
    if (!/^[!-~]+$/.test(value)) throw new UsageError(`--${name} has characters that no header takes`);
  return {
    ...{ from, token, to, key },
    apply: values.apply === true,
    setHeaders: values["set-headers"] === true,
    concurrency: numberFlag(values, "concurrency", 1, 20) ?? 4,
    report: textFlag(values, "report"),
  };
}

/** An address without the path of the API, which some add. */
function apiAt(name: string, given: string): URL {
  const { pathname, origin } = addressFlag(name, given);
  return new URL(pathname.replace(/(\/api(\/v1)?)?\/*$/, "/"), origin);
}
