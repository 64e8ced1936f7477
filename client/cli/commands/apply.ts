import { parse } from "yaml";
import { type Command, type CommandCall, CommandLineError, EXIT } from "../command.ts";
import { changePlan, configurationIn, InvalidConfiguration, type PlanStep } from "../configuration.ts";
import { readText } from "../input.ts";
import { print, progress, remark } from "../output.ts";

export const applyCommand: Command = {
  name: "apply",
  summary: "Bring event types, tenants, destinations and keys to what a file says",
  details:
    "Shows the plan and changes nothing unless --yes is given. What the file leaves out stays as it is. Exits with 8 while\n" +
    "changes are left to apply, so that it finds drift. The format is in the README of breakwater-client.",
  options: {
    file: { value: "file", short: "f", help: "A YAML or JSON file; - is standard input. Required" },
    yes: { help: "Apply the plan" },
    prune: { help: "Delete event types, and destinations with a uid, that the file does not name" },
    secrets: { help: "Set headers, auth and tokens again: their values cannot be compared" },
  },
  async run(call) {
    const file = call.text("file");
    if (file === undefined) throw new CommandLineError("apply needs --file <file>");
    const configuration = read(file);
    const { api } = call.connection();
    const options = { prune: call.has("prune"), secrets: call.has("secrets") };
    const steps = await changePlan(api, configuration, options);
    const blocked = steps.filter(({ action }) => action === "blocked");
    if (!call.has("yes")) {
      printPlan(call, steps);
      return steps.length === 0 ? EXIT.ok : EXIT.no;
    }
    await applyAll(call, steps);
    return blocked.length === 0 ? EXIT.ok : EXIT.no;
  },
};

function read(file: string) {
  const text = readText(file);
  try {
    return configurationIn(parse(text));
  } catch (error) {
    if (error instanceof InvalidConfiguration) throw new CommandLineError(`${file}: ${error.message}`);
    throw new CommandLineError(`${file} is neither YAML nor JSON: ${(error as Error).message}`);
  }
}

const SIGNS = { create: "+", change: "~", delete: "-", blocked: "!" } as const;

function printPlan(call: CommandCall, steps: readonly PlanStep[]): void {
  if (call.has("json")) {
    for (const step of steps) print(JSON.stringify(step));
    return;
  }
  for (const step of steps) print(textOf(step));
  const count = (action: PlanStep["action"]) => steps.filter((step) => step.action === action).length;
  const blocked = count("blocked");
  remark(
    steps.length === 0
      ? "Nothing to change."
      : `${count("create")} to create, ${count("change")} to change, ${count("delete")} to delete` +
          `${blocked > 0 ? `, ${blocked} that cannot be changed` : ""}. --yes applies this.`,
  );
}

function textOf({ action, kind, name, changes }: PlanStep): string {
  const lines = changes.map(({ field, from, to }) =>
    action === "create"
      ? `    ${field}: ${JSON.stringify(to)}`
      : `    ${field}: ${JSON.stringify(from)} → ${JSON.stringify(to)}`,
  );
  const remedy = action === "blocked" ? [`    ${REMEDIES[kind]}`] : [];
  return [`${SIGNS[action]} ${kind} ${name}`, ...lines, ...remedy].join("\n");
}

const REMEDIES: Readonly<Record<PlanStep["kind"], string>> = {
  key: "A key cannot be changed: revoke it, and apply again",
  destination: "Change the signature with a rotation of the secret",
  "event type": "",
  tenant: "",
};

/** Applies the steps one after the other. After a failure the same command goes on with what is left. */
async function applyAll(call: CommandCall, steps: readonly PlanStep[]): Promise<void> {
  for (const [at, step] of steps.entries()) {
    progress(`${at + 1} of ${steps.length}: ${step.kind} ${step.name}`);
    const once = await step.apply().catch((error: unknown) => {
      progress("");
      remark(`${step.kind} ${step.name} failed; ${at} of ${steps.length} steps were made`);
      throw error;
    });
    progress("");
    if (call.has("json")) print(JSON.stringify({ ...step, ...once }));
    else
      print(
        [textOf(step), ...Object.entries(once ?? {}).map(([name, value]) => `    ${name}: ${value}`)].join(
          "\n",
        ),
      );
  }
  if (steps.length === 0 && !call.has("json")) remark("Nothing to change.");
}
