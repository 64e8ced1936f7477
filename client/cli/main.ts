/** The command `breakwater`. */

import { type Command, CommandLineError, commandIn, EXIT, helpOf, overviewOf, readCall } from "./command.ts";
import { accessCommands } from "./commands/access.ts";
import { applyCommand } from "./commands/apply.ts";
import { deliveryCommands } from "./commands/deliveries.ts";
import { destinationCommands } from "./commands/destinations.ts";
import { eventTypeCommands } from "./commands/event-types.ts";
import { eventCommands } from "./commands/events.ts";
import { initCommand } from "./commands/init.ts";
import { listenCommand } from "./commands/listen.ts";
import { replayCommands } from "./commands/replays.ts";
import { verifyCommand } from "./commands/verify.ts";
import { completionCommand } from "./completion.ts";
import { failureOf } from "./failure.ts";
import { print, remark } from "./output.ts";
import { connectionOf } from "./profiles.ts";

const commands: readonly Command[] = [
  ...eventCommands,
  ...deliveryCommands,
  ...destinationCommands,
  ...replayCommands,
  listenCommand,
  applyCommand,
  ...eventTypeCommands,
  ...accessCommands,
  initCommand,
  verifyCommand,
  completionCommand(() => commands),
];

async function run(argv: readonly string[]): Promise<number> {
  const [first = ""] = argv;
  const isHelp = argv.length === 0 || ["help", "--help", "-h"].includes(first);
  const isGroup = commands.some(({ name }) => name.startsWith(`${first} `));
  const found = commandIn(commands, argv);
  if (isHelp || (isGroup && !found && (argv.length === 1 || argv[1]?.startsWith("-")))) {
    print(overviewOf(commands, isHelp ? "" : first));
    return EXIT.ok;
  }
  if (!found)
    throw new CommandLineError(
      `There is no command ${argv.slice(0, isGroup ? 2 : 1).join(" ")}: see breakwater --help`,
    );
  const call = readCall(found.command, found.rest, connectionOf);
  const code = call.has("help") ? print(helpOf(found.command)) : await found.command.run(call);
  return code ?? EXIT.ok;
}

// The reader of the output may stop, as `head` does.
process.stdout.on("error", ({ code }: NodeJS.ErrnoException) =>
  process.exit(code === "EPIPE" ? EXIT.ok : EXIT.failed),
);

const argv = process.argv.slice(2);
try {
  process.exitCode = await run(argv);
} catch (error) {
  const failure = failureOf(error);
  process.exitCode = failure?.code ?? EXIT.failed;
  if (failure?.problem && argv.includes("--json")) remark(JSON.stringify(failure.problem));
  else remark(`breakwater: ${failure?.text ?? (error as Error).message}`);
}
