/**
 * `npm run import:svix -- --from … --token … --to … --key …`: copies the applications, endpoints and event types of a Svix
 * server into a deployment. Without `--apply` it only says what it would do. docs/from-svix.md has how to move.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { interruption, runScript } from "./flags.ts";
import { importSvix } from "./import-svix/import.ts";
import { importOptionsFrom, readImportFlags } from "./import-svix/options.ts";

const HELP = `npm run import:svix -- --from URL --token TOKEN --to URL --key KEY [flags]    Copies a Svix server's configuration.

  --from URL         the Svix server: https://api.eu.svix.com, or your own
  --token TOKEN      its API token; else $SVIX_TOKEN
  --to URL           the deployment of Breakwater; else $BREAKWATER_URL
  --key KEY          an API key with all scopes and no tenant; else $BREAKWATER_KEY
  --apply            do it; otherwise the plan is printed, and nothing is written
  --set-headers      also set the headers of endpoints that are there already, whose values cannot be compared
  --report FILE      write which id has become which, and what has no counterpart, as JSON
  --concurrency N    requests to each side at once, 1 to 20 (4)
  -h, --help         this

It can be interrupted and run again: it goes on, and creates nothing twice.
The exit code is 0 when all is well, 1 when something was not read or not copied, 2 after a mistake in the command line.`;

process.exitCode = await runScript(
  HELP,
  () => readImportFlags(process.argv.slice(2)),
  async (flags) => {
    const options = importOptionsFrom(flags, process.env);
    const signal = interruption();
    const hands = {
      fetch,
      sleep: async (ms: number) => void (await sleep(ms, undefined, { signal }).catch(() => {})),
      now: () => Date.now(),
      random: () => Math.random(),
    };
    return importSvix(options, hands, signal, (line) => console.log(line));
  },
);
