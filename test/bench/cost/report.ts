/** The ledger as tables, in Markdown. */
import { line, table } from "../markdown.ts";
import { dollarsPerMillion, type Entry, goalReached, storagePerMillion, unitsOf } from "./budget.ts";
import type { Idle, Ledger } from "./ledger.ts";
import { dollarsFor, logLinesOf, PEERS } from "./prices.ts";
import { queueOperations, type Units } from "./units.ts";

const MINUTES_A_MONTH = 43_200;

const each = (value: (units: Units) => number) => (entry: Entry) => value(unitsOf(entry)) / entry.delivered;

const columns: readonly [title: string, value: (entry: Entry) => number, digits: number][] = [
  ["delivered", ({ delivered }) => delivered, 0],
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
  ["dollars a million", dollarsPerMillion, 2],
  ["storage, dollars a million", storagePerMillion, 2],
];

export function report({ entries, idle }: Ledger): string {
  const titles = columns.map(([title]) => title);
  const rows = entries.map(cellsOf);
  const peers = PEERS.map(([name, dollars]) => [name, dollars]);
  return [
    "Used for each delivery:",
    table(["posted", ...titles, "goal"], rows),
    idleLine(idle),
    table(["published by others", "dollars a million"], peers),
  ].join("\n\n");
}

/** One entry by itself, as it is made. */
export function row(entry: Entry): string {
  return line(cellsOf(entry));
}

function cellsOf(entry: Entry): string[] {
  const values = columns.map(([, value, digits]) => value(entry).toLocaleString("en", digitsOf(digits)));
  return [entry.name, ...values, goalReached(entry)];
}

function idleLine({ units, cpuMs, minutes }: Idle): string {
  const months = MINUTES_A_MONTH / minutes;
  const rows = `${units.d1RowsWritten / minutes} rows written and ${units.d1RowsRead / minutes} read, or a few more`;
  const dollars = (dollarsFor(units, cpuMs) * months).toFixed(2);
  return `Idle: a minute in which nothing happens takes ${rows}, a month of them ${dollars} dollars.`;
}

function digitsOf(digits: number): Intl.NumberFormatOptions {
  return { minimumFractionDigits: digits, maximumFractionDigits: digits };
}
