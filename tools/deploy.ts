/** `npm run deploy`: deploys everything that belongs to a deployment; see deploy/pipeline.ts for the steps. */
import { parseArgs } from "node:util";
import { type Deployment, deploy, planDeployment } from "./deploy/pipeline.ts";
import { type Flag, type Flags, flagsIn, runScript, UsageError } from "./flags.ts";

const HELP = `npm run deploy -- [flags]    Checks wrangler.toml, creates missing databases, migrates all of them, deploys the
                             Worker, and checks its health. Can be repeated at any time.

  --env NAME           deploy this environment of wrangler.toml
  --secrets-file FILE  set these secrets; the first deployment needs them
  --dry-run            check everything that can be checked here, print the plan, change nothing
  --location HINT      create missing databases near: weur, eeur, apac, oc, wnam or enam
  --health-timeout S   wait up to S seconds until the Worker is healthy (90); 0: do not check
  -h, --help           show this help

All other flags are those of wrangler deploy.`;

const text = { type: "string" } as const;
const own = { ...flagsIn(HELP), cwd: text, jurisdiction: text };
/** Flags of `wrangler deploy` that are passed on. Any other flag is refused: a mistyped `--dry-run` must deploy nothing. */
const PASSED_ON = new Set(
  (
    "alias assets compatibility-date compatibility-flag compatibility-flags containers-rollout define " +
    "dispatch-namespace domain domains jsx-factory jsx-fragment keep-vars latest logpush message metafile minify " +
    "name no-bundle bundle old-asset-ttl outdir outfile route routes schedule schedules strict tag triggers " +
    "tsconfig upload-source-maps var"
  ).split(" "),
);
/** Flags on which all commands of wrangler must agree. */
const sharedFlags = {
  env: { type: "string", short: "e" },
  config: { type: "string", short: "c" },
  "env-file": text,
  profile: text,
} as const;

/** Settings of npm by the same name: they may be set for all of its commands. */
const NPMS = new Set(["location", "message", "tag"]);

type Invocation = Readonly<{ deployment: Deployment; isDryRun: boolean; flags: Flags }>;

/**
 * Reads the command line. Arguments that are neither the script's nor every command's are passed to `wrangler deploy`
 * as they are.
 * @param environment has `CLOUDFLARE_ENV` where `--env` is left out
 * @throws UsageError for a flag without its value, for one that cannot work here, and for what no flag takes
 */
export function readDeployment(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Invocation {
  const options: Readonly<Record<string, Flag>> = { ...own, ...sharedFlags };
  refuseKeptByNpm([...Object.keys(options), ...PASSED_ON], environment);
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true });
  const values: Record<string, string | boolean | undefined> = {};
  const shared: string[] = [];
  const others = new Map<number, string>();
  let isOfWrangler = false;
  for (const token of tokens) {
    const flag = token.kind === "option" ? options[token.name] : undefined;
    if (token.kind !== "option" || !flag) {
      if (token.kind === "option" && !PASSED_ON.has(token.name.replace(/^no-(?!bundle)/, "")))
        throw new UsageError(`Unknown flag: ${token.rawName}`);
      if (token.kind === "positional" && !isOfWrangler)
        throw new UsageError(`Unexpected argument: ${token.value}`);
      isOfWrangler ||= token.kind === "option";
      others.set(token.index, args[token.index] ?? "");
      continue;
    }
    isOfWrangler = false;
    const { name, rawName } = token;
    // Wrangler takes `-e=staging` for `-e staging`.
    const value = rawName.startsWith("--") ? token.value : token.value?.replace(/^=/, "");
    if (flag.type === "boolean") {
      if (value !== undefined) throw new UsageError(`${rawName} takes no value`);
      values[name] = true;
      continue;
    }
    if (value === undefined) throw new UsageError(`${rawName} needs a value`);
    values[name] = value;
    if (name in sharedFlags) shared.push(`--${name}`, value);
  }
  if (values.cwd !== undefined) throw new UsageError("--cwd does not work here; use --config");
  if (values.jurisdiction !== undefined)
    throw new UsageError("--jurisdiction does not work here; set JURISDICTION in the vars of wrangler.toml");
  const healthSeconds = Number(values["health-timeout"] ?? 90);
  if (!(healthSeconds >= 0)) throw new UsageError("--health-timeout needs a number of seconds");
  return {
    deployment: {
      config: String(values.config ?? "wrangler.toml"),
      environment: String(values.env ?? environment.CLOUDFLARE_ENV ?? ""),
      shared,
      others: [...others.values()],
      secretsFile: textOf(values["secrets-file"]),
      location: textOf(values.location),
      healthMs: healthSeconds * 1000,
    },
    isDryRun: values["dry-run"] === true,
    flags: { values, others: [...others.values()] },
  };
}

/** Without `--` before them npm reads a script's flags as its own: the top level would be deployed instead of `--env`'s. */
function refuseKeptByNpm(
  names: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): void {
  const isKept = (name: string) => environment[`npm_config_${name.replaceAll("-", "_")}`] !== undefined;
  const kept = names.find((name) => !NPMS.has(name) && isKept(name));
  if (kept === undefined) return;
  throw new UsageError(
    `npm took --${kept} for a flag of its own; expected -- before it: npm run deploy -- --${kept}`,
  );
}

function textOf(value: string | boolean | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}

if (import.meta.main) {
  let invocation: Invocation;
  const read = () => {
    invocation = readDeployment(process.argv.slice(2));
    return invocation.flags;
  };
  const script = async () => {
    const run = invocation.isDryRun ? planDeployment : deploy;
    await run(invocation.deployment, (line) => console.log(line));
    return 0;
  };
  process.exitCode = await runScript(HELP, script, read);
}
