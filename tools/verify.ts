/**
 * `npm run verify -- --url … --key …`: shows the owner of a deployment that it does what the README promises, through
 * its public API and with its own receiver, and leaves nothing behind. docs/verifying.md explains what each check
 * confirms.
 */
import { interruption, runScript } from "./flags.ts";
import { checks } from "./verify/checks.ts";
import { verifyOptionsFrom } from "./verify/options.ts";
import { verify } from "./verify/verification.ts";

const HELP = `npm run verify -- --url URL --key KEY [flags]    Checks a deployment's promises, within minutes.

  --url URL                its address; else $BREAKWATER_URL
  --key KEY                an API key with all scopes and no tenant; else $BREAKWATER_KEY
  --only NAME,…            run only these checks
  --list                   print the checks and what they expect
  --receiver URL           use this receiver; otherwise one is deployed to your account, and removed at the end
  --receiver-token TOKEN   its token
  --soak DURATION          afterwards post at a steady rate for this long: 90s, 10m, 1h
  --soak-rate N            events a second (5)
  --missing-name URL       other addresses for the checks of failures: a host name that does not exist,
  --closed-port URL        a port that nothing listens at,
  --bad-certificate URL    an expired certificate,
  --dead-origin URL        and a host behind Cloudflare's proxy whose origin is down
  -c, --config FILE, -e, --env NAME   the deployment's configuration, to find what Cloudflare has billed (wrangler.toml)
  -h, --help               show this help

The exit code is 0 when all checks succeed, 1 when one fails, 2 after a mistake in the command line.`;

const names = checks.map(({ name }) => name);

const INTERRUPTED =
  "Interrupted: removing what was created. A second interrupt exits at once, and leaves it behind.";

/** If the reader of the output is gone, such as `head`, the run must still remove what it created. */
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

process.exit(
  await runScript(HELP, async (flags) => {
    if (!flags.values.list) {
      const options = verifyOptionsFrom(flags, process.env, names);
      const signal = interruption(() => console.error(INTERRUPTED));
      return verify(options, signal, (line) => console.log(line));
    }
    const width = Math.max(...names.map((name) => name.length));
    for (const { name, expected } of checks) console.log(`${name.padEnd(width)}  ${expected}`);
    return 0;
  }),
);
