/**
 * `npm run import:svix -- --from … --token … --to … --key …`: copies the applications, endpoints and event types of a
 * Svix server into a deployment. Without `--apply` it only prints what it would do. docs/from-svix.md explains how to
 * move.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { interruption, runScript } from "./flags.ts";
import { importSvix } from "./import-svix/import.ts";
import { importHelp, importOptionsFrom } from "./import-svix/options.ts";

process.exitCode = await runScript(importHelp, async (flags) => {
  const options = importOptionsFrom(flags, process.env);
  const signal = interruption();
  const effects = {
    fetch,
    sleep: async (ms: number) => void (await sleep(ms, undefined, { signal }).catch(() => {})),
    now: () => Date.now(),
    random: () => Math.random(),
  };
  return importSvix(options, effects, signal, (line) => console.log(line));
});
