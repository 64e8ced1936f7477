/** The command line of `npm run verify`. */
import { addressFlag, type Flags, numberFlag, textFlag, UsageError } from "../flags.ts";

export type VerifyOptions = Readonly<{
  url: URL;
  key: string;
  /** A receiver that exists already. */
  receiver: Readonly<{ url: string; token: string }> | undefined;
  /** Names of the checks to run; undefined: all of them. */
  only: readonly string[] | undefined;
  soakMs: number | undefined;
  /** Events a second while soaking. */
  soakRate: number;
  /** Addresses that fail in a certain way, in place of the default ones. */
  failing: Readonly<Partial<Record<FailingAddress, string>>>;
  /** The path of the deployment's configuration, to find what Cloudflare has billed. */
  config: string;
  environment: string;
}>;

const failingAddresses = ["missing-name", "closed-port", "bad-certificate", "dead-origin"] as const;
export type FailingAddress = (typeof failingAddresses)[number];

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * @param environment has `BREAKWATER_URL` and `BREAKWATER_KEY` where the flags are left out
 * @param known names of all checks
 * @throws UsageError that names the flag, what is wrong with it, and what is expected
 */
export function verifyOptionsFrom(
  { values }: Flags,
  environment: Environment,
  known: readonly string[],
): VerifyOptions {
  const given = (name: string) => textFlag(values, name);
  const url = given("url") ?? environment.BREAKWATER_URL;
  const key = given("key") ?? environment.BREAKWATER_KEY;
  if (!url)
    throw new UsageError("--url is missing: the address of the deployment, as npm run deploy prints it");
  if (!key) throw new UsageError("--key is missing: an API key with all scopes, as ADMIN_KEY is");
  const [receiver, token] = [given("receiver"), given("receiver-token")];
  if ((receiver === undefined) !== (token === undefined))
    throw new UsageError("--receiver and --receiver-token need each other");
  const soak = given("soak");
  const soakMs = soak === undefined ? undefined : durationMs(soak);
  const soakRate = numberFlag(values, "soak-rate", 1, 100) ?? 5;
  const soaked = ((soakMs ?? 0) / 1000) * soakRate;
  if (soaked > MOST_SOAKED)
    throw new UsageError(
      `--soak and --soak-rate are ${soaked} events; expected ${MOST_SOAKED} at most, because all are kept in memory`,
    );
  return {
    url: new URL(addressFlag("url", url).origin),
    key,
    receiver: receiver && token ? { url: addressFlag("receiver", receiver).origin, token } : undefined,
    only: namesIn(given("only"), known),
    soakMs,
    soakRate,
    failing: Object.fromEntries(
      failingAddresses.flatMap((name) => {
        const address = given(name);
        return address === undefined ? [] : [[name, addressFlag(name, address).href]];
      }),
    ),
    config: given("config") ?? "wrangler.toml",
    environment: given("env") ?? environment.CLOUDFLARE_ENV ?? "",
  };
}

function namesIn(given: string | undefined, known: readonly string[]): readonly string[] | undefined {
  if (given === undefined) return undefined;
  const names = given.split(",").map((name) => name.trim());
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length === 0) return names;
  throw new UsageError(`--only names no check: ${unknown.join(", ")}; expected some of ${known.join(", ")}`);
}

const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000 } as const;
const MOST_SOAKED = 500_000;
const LONGEST_MS = 24 * UNITS_MS.h;

/**
 * The milliseconds of a duration such as `90s`, `10m` or `1h`.
 * @throws UsageError for anything else, for nothing, and for more than a day
 */
export function durationMs(given: string): number {
  const [, count, unit] = /^(\d{1,6})([smh])$/.exec(given) ?? [];
  const ms = count === undefined ? 0 : Number(count) * UNITS_MS[unit as keyof typeof UNITS_MS];
  if (ms > 0 && ms <= LONGEST_MS) return ms;
  throw new UsageError(
    `--soak is ${JSON.stringify(given)}; expected a duration such as 90s, 10m or 1h, 24h at most`,
  );
}
