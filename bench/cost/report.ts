/** The ledger as figures to save, and these as Markdown tables. */
import { fixed, line, table } from "../markdown.ts";
import type { CostEntry, CostResults } from "../results.ts";
import { dollarsPerMillion, type Entry, storagePerMillion, unitsOf } from "./budget.ts";
import type { Idle, Ledger } from "./ledger.ts";
import { dollarsFor, logLinesOf } from "./prices.ts";
import { queueOperations, type Units } from "./units.ts";

const MINUTES_A_MONTH = 43_200;

const each = (value: (units: Units) => number) => (entry: Entry) => value(unitsOf(entry)) / entry.delivered;

/** For each delivery. */
const columns: readonly [title: string, value: (entry: Entry) => number, digits: number][] = [
  ["D1 rows written", ({ delivering, delivered }) => delivering.units.d1RowsWritten / delivered, 3],
  ["to remove them", ({ afterwards, delivered }) => afterwards.units.d1RowsWritten / delivered, 3],
  ["rows read", each((units) => units.d1RowsRead), 2],
  ["round trips", each((units) => units.d1RoundTrips), 3],
  ["queue operations", each(queueOperations), 3],
  ["gate requests", each((units) => units.gateRequests), 3],
  ["gate rows written", each((units) => units.gateRowsWritten), 3],
  ["intake requests", each((units) => units.intakeRequests), 2],
  ["objects in use, ms", each((units) => units.gateMs + units.intakeMs), 2],
  ["invocations", each((units) => units.invocations), 3],
  ["log lines", each(logLinesOf), 3],
  ["CPU ms", ({ delivering, afterwards, delivered }) => (delivering.cpuMs + afterwards.cpuMs) / delivered, 2],
];

export function resultsOf({ entries, idle }: Ledger): CostResults {
  return { entries: entries.map(resultOf), idle: idleMonth(idle) };
}

export function resultOf(entry: Entry): CostEntry {
  const { id, name, delivered, goal } = entry;
  return {
    id,
    name,
    delivered,
    used: Object.fromEntries(columns.map(([title, value]) => [title, value(entry)])),
    dollars: dollarsPerMillion(entry),
    storage: storagePerMillion(entry),
    ...(goal && { goal }),
  };
}

function idleMonth({ units, cpuMs, minutes }: Idle): CostResults["idle"] {
  return {
    rowsWritten: units.d1RowsWritten / minutes,
    rowsRead: units.d1RowsRead / minutes,
    dollarsAMonth: (dollarsFor(units, cpuMs) * MINUTES_A_MONTH) / minutes,
  };
}

export function costTable({ entries }: Pick<CostResults, "entries">): string {
  const titles = columns.map(([title]) => title);
  const head = ["posted", "delivered", ...titles, "dollars a million", "storage, dollars a million", "goal"];
  return table(head, entries.map(cellsOf));
}

/** One entry as a row, printed when its run is over. */
export function row(entry: CostEntry): string {
  return line(cellsOf(entry));
}

export function meetsGoal({ dollars, storage, goal }: CostEntry): boolean {
  return goal !== undefined && dollars <= goal.dollars && storage <= (goal.storage ?? Infinity);
}

function cellsOf(entry: CostEntry): string[] {
  const used = columns.map(([title, , digits]) => fixed(entry.used[title], digits));
  const costs = [fixed(entry.dollars, 2), fixed(entry.storage, 2)];
  return [entry.name, fixed(entry.delivered), ...used, ...costs, goalCell(entry)];
}

/** Whether a run meets its goal, in words; nothing without a goal. */
function goalCell(entry: CostEntry): string {
  if (!entry.goal) return "";
  const { dollars, storage } = entry.goal;
  const limit = storage === undefined ? fixed(dollars, 2) : `${fixed(dollars, 2)} + ${fixed(storage, 2)}`;
  return `${limit}, ${meetsGoal(entry) ? "met" : "**not met**"}`;
}

export function idleLine({ rowsWritten, rowsRead, dollarsAMonth }: CostResults["idle"]): string {
  return `A minute without traffic writes ${fixed(rowsWritten, 1)} rows and reads ${fixed(rowsRead)}; a month of them costs ${fixed(dollarsAMonth, 2)} dollars.`;
}
