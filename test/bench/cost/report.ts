/** The ledger as tables, in Markdown. */
import { line, table } from "../markdown.ts";
import { dollarsPerMillion, type Entry } from "./budget.ts";
import type { Idle, Ledger } from "./ledger.ts";
import { dollarsFor, PEERS } from "./prices.ts";
import { queueOperations } from "./units.ts";

const MINUTES_A_MONTH = 43_200;

const columns: readonly [title: string, value: (entry: Entry) => number, digits: number][] = [
  ["delivered", ({ delivered }) => delivered, 0],
  ["D1 rows written", ({ units, delivered }) => units.d1RowsWritten / delivered, 2],
  ["read", ({ units, delivered }) => units.d1RowsRead / delivered, 2],
  ["round trips", ({ units, delivered }) => units.d1RoundTrips / delivered, 3],
  ["queue operations", ({ units, delivered }) => queueOperations(units) / delivered, 2],
  ["gate requests", ({ units, delivered }) => units.gateRequests / delivered, 3],
  ["gate rows written", ({ units, delivered }) => units.gateRowsWritten / delivered, 3],
  ["invocations", ({ units, delivered }) => units.invocations / delivered, 3],
  ["CPU ms", ({ cpuMs, delivered }) => cpuMs / delivered, 2],
  ["dollars a million", dollarsPerMillion, 2],
];

export function report({ entries, idle }: Ledger): string {
  const titles = columns.map(([title]) => title);
  const rows = entries.map(cellsOf);
  const peers = PEERS.map(([name, dollars]) => [name, dollars]);
  return [
    "Used for each delivery:",
    table(["posted", ...titles], rows),
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
  return [entry.name, ...values];
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
