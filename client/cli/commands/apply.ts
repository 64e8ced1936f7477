import { chmodSync, closeSync, openSync, writeSync } from "node:fs";
import { isMap, isPair, isScalar, isSeq, LineCounter, parseDocument, visit } from "yaml";
import { ProblemError } from "../../src/breakwater.ts";
import { type Command, type CommandCall, CommandLineError, EXIT } from "../command.ts";
import {
  type Created,
  changePlan,
  configurationIn,
  InvalidConfiguration,
  type Path,
  type PlanStep,
} from "../configuration.ts";
import { yamlNumber } from "../exact-numbers.ts";
import { readText } from "../input.ts";
import { print, progress, remark } from "../output.ts";

export const applyCommand: Command = {
  name: "apply",
  summary: "Make event types, tenants, destinations and keys match a file",
  details:
    "Shows the plan and changes nothing unless --yes is given. What the file leaves out stays as it is. Exits with 8 while\n" +
    "changes are left to apply, so it detects drift. Keys and signing secrets that it creates are not printed: they are\n" +
    "appended to the file of --save-secrets. The format of the configuration is in the README of breakwater-client.",
  options: {
    file: { value: "file", short: "f", help: "A YAML or JSON file; - is standard input. Required" },
    yes: { help: "Apply the plan" },
    prune: { help: "Delete event types, and destinations with a uid, that the file does not name" },
    secrets: { help: "Set headers, auth and tokens again: their values cannot be compared" },
    "save-secrets": {
      value: "file",
      help: "Where new keys and secrets go, a line of JSON for each; only you can read it",
    },
  },
  async run(call) {
    const file = call.needed("file");
    const { document, lineOf } = read(file);
    const options = { prune: call.has("prune"), secrets: call.has("secrets") };
    try {
      const steps = await changePlan(call.api, configurationIn(document), options);
      const isBlocked = steps.some(({ action }) => action === "blocked");
      if (call.has("yes")) await applyAll(call, steps, lineOf);
      else printPlan(call, steps);
      return (call.has("yes") ? isBlocked : steps.length > 0) ? EXIT.no : EXIT.ok;
    } catch (error) {
      if (!(error instanceof InvalidConfiguration)) throw error;
      const line = lineOf(error.path);
      throw new CommandLineError(`${file}${line === undefined ? "" : `, line ${line}`}: ${error.message}`);
    }
  },
};

type LineOf = (path: Path) => number | undefined;

/** The document of a file, and the line of each place in it. Parts of the text are not repeated: they may be secrets. */
function read(file: string): Readonly<{ document: unknown; lineOf: LineOf }> {
  const lines = new LineCounter();
  const parsed = parseDocument(readText(file), { lineCounter: lines, prettyErrors: false });
  const lineAt = (offset: number) => lines.linePos(offset).line;
  const [error] = parsed.errors;
  if (error)
    throw new CommandLineError(
      `${file}, line ${lineAt(error.pos[0])}: the file is neither YAML nor JSON: ${error.message}`,
    );
  visit(parsed, {
    Pair(_, { key }) {
      // As a number, the name 007, or one of nineteen digits, would be another one.
      if (isScalar(key) && typeof key.value === "number") key.value = key.source ?? key.value;
    },
    Scalar(key, scalar, path) {
      const { value, source } = scalar;
      if (key !== "key" && typeof value === "number" && source !== undefined && isOfEventData(path))
        scalar.value = yamlNumber(value, source);
    },
  });
  return {
    document: parsed.toJS(),
    lineOf(path) {
      let node: unknown = parsed.contents;
      let offset: number | undefined;
      for (const step of path) {
        const pair = isMap(node)
          ? node.items.find(({ key }) => isScalar(key) && String(key.value) === step)
          : undefined;
        if (isScalar(pair?.key)) offset = pair.key.range?.[0];
        node = pair ? pair.value : isSeq(node) ? node.items[Number(step)] : undefined;
      }
      return offset === undefined ? undefined : lineAt(offset);
    },
  };
}

/** Whether it is in the schema or the example of an event type, whose numbers are kept as they are written. */
function isOfEventData(path: readonly unknown[]): boolean {
  const [section, , field] = path.flatMap((one) => (isPair(one) && isScalar(one.key) ? [one.key.value] : []));
  return section === "event_types" && (field === "schema" || field === "example");
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

/** Applies the steps one after the other. After a failure the same command continues with what is left. */
async function applyAll(call: CommandCall, steps: readonly PlanStep[], lineOf: LineOf): Promise<void> {
  const isSecretMade = steps.some(({ makesSecret }) => makesSecret === true);
  const save = isSecretMade ? secretsFile(call.text("save-secrets")) : () => {};
  for (const [at, step] of steps.entries()) {
    progress(`${at + 1} of ${steps.length}: ${step.kind} ${step.name}`);
    const created = await step.apply().catch((error: unknown) => {
      progress("");
      remark(`${step.kind} ${step.name} failed; ${at} of ${steps.length} steps were made`);
      throw withLines(error, step.path, lineOf);
    });
    progress("");
    if (created && (created.key ?? created.secret) !== undefined) save(step, created);
    if (call.has("json")) print(JSON.stringify({ ...step, ...(created && { id: created.id }) }));
    else print([textOf(step), ...(created ? [`    id: ${created.id}`] : [])].join("\n"));
  }
  if (steps.length === 0 && !call.has("json")) remark("Nothing to change.");
}

/** Opens the file before the first step, because what cannot be stored then is lost. */
function secretsFile(file: string | undefined): (step: PlanStep, created: Created) => void {
  if (file === undefined)
    throw new CommandLineError(
      "The plan creates keys or signing secrets, which are shown only once: --save-secrets <file> stores them. Nothing was changed",
    );
  try {
    closeSync(openSync(file, "a", 0o600));
    chmodSync(file, 0o600);
  } catch (error) {
    throw new CommandLineError(`${file} cannot be written: ${(error as Error).message}`);
  }
  return ({ kind, name }, created) => {
    const open = openSync(file, "a", 0o600);
    writeSync(open, `${JSON.stringify({ kind, name, ...created })}\n`);
    closeSync(open);
  };
}

/** The fields at fault with their lines in the file. */
function withLines(error: unknown, path: Path, lineOf: LineOf): unknown {
  if (!(error instanceof ProblemError)) return error;
  const { problem, response } = error;
  const errors = problem.errors?.map((one) => {
    const line = lineOf([...path, ...one.field.split(/[.[\]]+/)]);
    return { ...one, ...(line !== undefined && { line }) };
  });
  return new ProblemError({ ...problem, ...(errors && { errors }) }, response);
}
