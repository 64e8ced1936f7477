/**
 * `npm run verify -- --url … --key …`: shows the owner of a deployment that it does what the README promises, through its
 * public API and with a receiver of its own, and leaves nothing behind. docs/verifying.md has what each check confirms.
 */
import { interruption, runScript } from "./flags.ts";
import { checks } from "./verify/checks.ts";
import { verifyOptionsFrom } from "./verify/options.ts";
import { verify } from "./verify/verification.ts";

const HELP = `npm run verify -- --url URL --key KEY [flags]    Shows whether a deployment does what it promises, in minutes.

  --url URL                its address; else $BREAKWATER_URL
  --key KEY                an API key with all scopes and no tenant; else $BREAKWATER_KEY
  --only NAME,…            run these checks alone
  --list                   print the checks and what they expect
  --receiver URL           use this receiver; otherwise one is deployed to your account, and removed in the end
  --receiver-token TOKEN   its token
  --soak DURATION          and then a steady rate for so long: 90s, 10m, 1h
  --soak-rate N            events a second (5)
  --missing-name URL       addresses that fail in a certain way, instead of the usual ones: a name that does not exist,
  --closed-port URL        a port that nothing listens at,
  --bad-certificate URL    an expired certificate,
  --dead-origin URL        and a host behind Cloudflare's proxy whose origin is down
  -c, --config FILE, -e, --env NAME   the deployment's configuration, to find what Cloudflare has billed (wrangler.toml)
  -h, --help               this

The exit code is 0 when all is well, 1 when something is not, 2 after a mistake in the command line.`;

const names = checks.map(({ name }) => name);

const INTERRUPTED = "Interrupted: removing what was made. Once more ends this at once, and leaves it behind.";

/** A reader that is gone, such as `head`, must not keep the rest from being removed. */
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
