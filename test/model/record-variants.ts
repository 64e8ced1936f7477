/** The scenarios of recording, and statements that are broken on purpose. */
import {
  type Actor,
  INDEXES,
  type Outcome,
  type RecordParts,
  type RecordScenario,
  recordModel,
} from "./record.ts";
import { type Checked, checked, type Variant } from "./report.ts";

const all: readonly Outcome[] = ["delivered", "failed", "refused", "late"];

const consumer = (name: string, indexes: readonly number[], outcomes = all): Actor => ({
  kind: "consumer",
  name,
  indexes,
  outcomes,
});
const drain: Actor = { kind: "drain", name: "The drain", outcomes: ["delivered", "failed", "late"] };
const lost: Actor = { kind: "sweep for lost", name: "The sweep" };
const overdue: Actor = { kind: "sweep for overdue", name: "The sweep of overdue ones" };
const requeue: Actor = { kind: "requeue", name: "The operator" };
const cancel: Actor = { kind: "cancel", name: "The deletion" };

const scenario = (faults: number, ...actors: Actor[]): RecordScenario => ({
  indexes: INDEXES,
  actors,
  faults,
});

const first = consumer("The first consumer", INDEXES);
const second = consumer("The second consumer", INDEXES);
const other = consumer("The second consumer", [60]);

export const smallRecords: readonly Checked[] = [
  checked("Two consumers of the same message, one fault", () => recordModel(scenario(1, first, second))),
  checked("A consumer and the sweep", () => recordModel(scenario(0, first, lost, overdue))),
];

export const deepRecords: readonly Checked[] = [
  checked("A consumer, a drain and both sweeps", () => recordModel(scenario(0, first, drain, lost, overdue))),
  checked("Two consumers and an operator who requeues", () =>
    recordModel(scenario(0, first, other, requeue)),
  ),
  checked("A consumer, a deletion and both sweeps, one fault", () =>
    recordModel(scenario(1, first, cancel, lost, overdue)),
  ),
];

function broken(name: string, one: RecordScenario, parts: RecordParts): Variant {
  return checked(name, () => recordModel(one, parts));
}

/** Replaces a part of the statement that begins with some words. */
function inStatement(start: string, part: RegExp | string, by: string) {
  return (sql: string) => {
    if (!sql.trim().startsWith(start)) return sql;
    const edited = sql.replaceAll(part, by);
    if (edited === sql) throw new Error(`${start} has no ${part}`);
    return edited;
  };
}

/** How the statement that records rows begins. */
const RECORD = "INSERT INTO deliveries (destination_id, event_id, state, reason, attempts";

export const brokenRecords: readonly Variant[] = [
  broken(
    "The masks forget that `delivered` is final",
    scenario(0, consumer("The first consumer", [3]), consumer("The second consumer", [3])),
    {
      edit: inStatement("INSERT INTO packs", /delivered(\d) = packs\.delivered\d \|/g, "delivered$1 ="),
    },
  ),
  broken(
    "A bit is set although the delivery has a row",
    scenario(0, consumer("The first consumer", [3]), consumer("The second consumer", [3])),
    {
      edit: inStatement("INSERT INTO packs", /& ~own(\d)/g, "& ~(own$1 & 0)"),
    },
  ),
  broken(
    "A row may be inserted although its bit says that it has ended",
    scenario(0, consumer("The first consumer", [3]), consumer("The second consumer", [3])),
    {
      schema: "DROP TRIGGER deliveries_ended_in_pack",
    },
  ),
  broken(
    "A row leaves its bit in the pack",
    scenario(0, consumer("The first consumer", [3]), consumer("The second consumer", [3])),
    {
      schema: "DROP TRIGGER deliveries_out_of_pack",
    },
  ),
  broken(
    "A row may be written by one that knows of fewer attempts",
    scenario(
      0,
      consumer("The first consumer", [3]),
      consumer("The second consumer", [3]),
      consumer("The third consumer", [3]),
    ),
    {
      edit: inStatement(RECORD, "deliveries.attempts <= excluded.attempts", "true"),
    },
  ),
  broken(
    "A row may be written by one of a former generation",
    scenario(
      0,
      consumer("The first consumer", [3], ["delivered"]),
      consumer("The second consumer", [3], ["delivered"]),
      requeue,
    ),
    {
      edit: inStatement(RECORD, "AND deliveries.generation <= excluded.generation", ""),
    },
  ),
  broken(
    "What has ended may be written again",
    scenario(0, consumer("The first consumer", [3]), consumer("The second consumer", [3])),
    {
      edit: inStatement(RECORD, "deliveries.state IN ('waiting', 'retrying') AND", ""),
    },
  ),
  broken("In flight is forgotten when a neighbour is recorded", scenario(0, first, other), {
    edit: inStatement(
      "INSERT INTO packs",
      /recover_at = iif\([\s\S]*?excluded\.recover_at, 0\)\)\)/g,
      "recover_at = excluded.recover_at",
    ),
  }),
];
