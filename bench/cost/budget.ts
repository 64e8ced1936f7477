/** Budgets and goals for the cost of delivering, and the check of the budgets. */
import { dollarsFor, logLinesOf, storageDollars } from "./prices.ts";
import { added, queueOperations, type Units } from "./units.ts";

export type Used = Readonly<{ units: Units; cpuMs: number }>;

/** The usage of one run. */
export type Entry = Readonly<{
  id: string;
  name: string;
  delivered: number;
  /** Until everything was delivered. */
  delivering: Used;
  /** Afterwards, by the sweep and by retention. */
  afterwards: Used;
  /** The growth of the database in bytes. */
  bytes: number;
  budget?: Budget;
  goal?: Goal;
}>;

/** Limits of a run, for each delivery. The bench fails when one of them is exceeded. */
export type Budget = Readonly<{
  dollarsPerMillion: number;
  storagePerMillion: number;
  d1RowsRead: number;
  d1RowsWritten: number;
  queueOperations: number;
  logLines: number;
}>;

/** The goal of the design, in dollars a million. Shown beside the counted cost. */
export type Goal = Readonly<{ dollars: number; storage?: number }>;

/** A tolerance for the sweep's own rows, and for the first contact with a destination. */
const ROUNDING = 1.01;

export function unitsOf({ delivering, afterwards }: Entry): Units {
  return added(delivering.units, afterwards.units);
}

export function dollarsPerMillion(entry: Entry): number {
  const { delivering, afterwards, delivered } = entry;
  return (dollarsFor(unitsOf(entry), delivering.cpuMs + afterwards.cpuMs) / delivered) * 1_000_000;
}

/** The dollars to store a million deliveries for 30 days, which are a month. */
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
