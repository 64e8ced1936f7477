/**
 * A `wrangler` on the PATH that records its arguments and prints what the real one would, for a scenario that the test
 * describes. It stores the account's databases in a file, so that the next command lists what one has created.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

type Scenario = Readonly<{
  /** The databases that are in the account before. */
  databases?: readonly string[];
  /** The databases among them that have every migration. */
  migrated?: readonly string[];
  /** The migrations in the databases that have neither all of this version's nor none. */
  contents?: Readonly<Record<string, Readonly<{ tables: readonly string[]; applied: readonly string[] }>>>;
  /** The beginning of the command that fails. */
  failing?: string;
  /** The addresses that `wrangler deploy` reports. */
  targets?: readonly string[];
}>;

const PROGRAM = `#!${process.execPath}
const { appendFileSync, readFileSync, writeFileSync } = require("node:fs");
const { join } = require("node:path");
const args = process.argv.slice(2);
const command = args.join(" ");
const file = join(__dirname, "state.json");
const state = JSON.parse(readFileSync(file, "utf8"));
appendFileSync(join(__dirname, "commands"), command + "\\n");
if (state.failing && command.startsWith(state.failing)) {
  console.error("\\u2718 [ERROR] as the test wants it");
  process.exit(1);
}
if (command.startsWith("d1 list")) {
  console.log(JSON.stringify(state.databases.map((name) => ({ uuid: name, name }))));
} else if (command.startsWith("d1 execute")) {
  const { tables = [], applied = [] } = state.contents[args[2]] ?? {};
  const names = command.includes("FROM d1_migrations") ? applied : tables;
  console.log(JSON.stringify([{ results: names.map((name) => ({ name })), success: true }]));
} else if (command.startsWith("d1 create")) {
  if (state.databases.includes(args[2])) process.exit(1);
  state.databases.push(args[2]);
} else if (command.startsWith("d1 migrations apply")) {
  if (!state.databases.includes(args[3])) process.exit(1);
  console.log(state.migrated.includes(args[3]) ? "\\u2705 No migrations to apply!" : "Migrations to be applied:");
  state.migrated.push(args[3]);
} else if (command.startsWith("deploy") && !args.includes("--dry-run")) {
  const entries = [{ type: "wrangler-session" }, { type: "deploy", targets: state.targets }];
  writeFileSync(process.env.WRANGLER_OUTPUT_FILE_PATH, entries.map((one) => JSON.stringify(one)).join("\\n") + "\\n");
}
writeFileSync(file, JSON.stringify(state));
`;

export type FakeWrangler = Readonly<{
  /** A PATH on which it comes first. */
  path: string;
  /** Begins a scenario, with nothing recorded. */
  set: (scenario: Scenario) => void;
  /** The commands since the scenario began, or since the last call; without the queries of databases. */
  commands: () => string[];
  remove: () => void;
}>;

export function fakeWrangler(): FakeWrangler {
  const directory = mkdtempSync(join(tmpdir(), "breakwater-fake-wrangler-"));
  const [program, record] = [join(directory, "wrangler"), join(directory, "commands")];
  writeFileSync(program, PROGRAM);
  writeFileSync(join(directory, "package.json"), '{"type": "commonjs"}');
  chmodSync(program, 0o755);
  return {
    path: `${directory}${delimiter}${process.env.PATH}`,
    set: (scenario) => {
      const state = { databases: [], migrated: [], contents: {}, targets: [], ...scenario };
      writeFileSync(join(directory, "state.json"), JSON.stringify(state));
      writeFileSync(record, "");
    },
    commands: () => {
      const commands = readFileSync(record, "utf8").split("\n").slice(0, -1);
      writeFileSync(record, "");
      return commands.filter((command) => !command.startsWith("d1 execute"));
    },
    remove: () => rmSync(directory, { recursive: true }),
  };
}
