/** What delivering may cost, what it is to cost one day, and whether it does. */
import { dollarsFor, logLinesOf, storageDollars } from "./prices.ts";
import { added, queueOperations, type Units } from "./units.ts";

export type Used = Readonly<{ units: Units; cpuMs: number }>;

/** What one run has used. */
export type Entry = Readonly<{
  id: string;
  name: string;
  delivered: number;
  /** Until everything was delivered. */
  delivering: Used;
  /** Afterwards: the sweep's look, and retention's deletes. */
  afterwards: Used;
  /** By which the database has grown. */
  bytes: number;
  budget?: Budget;
  goal?: Goal;
}>;

/** Limits of a run, for each delivery. Beyond one of them the bench fails. */
export type Budget = Readonly<{
  dollarsPerMillion: number;
  storagePerMillion: number;
  d1RowsRead: number;
  d1RowsWritten: number;
  queueOperations: number;
  logLines: number;
}>;

/** What the design wants, in dollars a million. Shown beside what was counted. */
export type Goal = Readonly<{ dollars: number; storage?: number }>;

/** The sweep's own, and the first contact with a destination. */
const ROUNDING = 1.01;

export function unitsOf({ delivering, afterwards }: Entry): Units {
  return added(delivering.units, afterwards.units);
}

export function dollarsPerMillion(entry: Entry): number {
  const { delivering, afterwards, delivered } = entry;
  return (dollarsFor(unitsOf(entry), delivering.cpuMs + afterwards.cpuMs) / delivered) * 1_000_000;
}

/** Of what is kept for 30 days, as long as a month. */
export function storagePerMillion({ bytes, delivered }: Entry): number {
  return storageDollars((bytes / delivered) * 1_000_000);
}

/** The limits that a run has exceeded, each in words. */
export function excesses(entry: Entry): string[] {
  const { name, budget, delivered } = entry;
  if (!budget) return [];
  const units = unitsOf(entry);
  const limits: readonly [what: string, used: number, limit: number][] = [
    ["dollars per million", dollarsPerMillion(entry), budget.dollarsPerMillion],
    ["dollars per million for storage", storagePerMillion(entry), budget.storagePerMillion],
    ["D1 rows written per delivery", units.d1RowsWritten / delivered, budget.d1RowsWritten * ROUNDING],
    ["D1 rows read per delivery", units.d1RowsRead / delivered, budget.d1RowsRead * ROUNDING],
    ["queue operations per delivery", queueOperations(units) / delivered, budget.queueOperations * ROUNDING],
    ["log lines per delivery", logLinesOf(units) / delivered, budget.logLines * ROUNDING],
  ];
  return limits
    .filter(([, used, limit]) => used > limit)
    .map(([what, used, limit]) => `${name}: ${what} ${used.toFixed(3)}, budget ${limit.toFixed(3)}`);
}
