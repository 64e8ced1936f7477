/** What delivering may cost, and whether it did. */
import { dollarsFor } from "./prices.ts";
import { queueOperations, type Units } from "./units.ts";

/** What one run has used. */
export type Entry = Readonly<{
  name: string;
  delivered: number;
  units: Units;
  cpuMs: number;
  budget?: Budget;
}>;

/** Limits of a run, on top of those that hold for every one that has a budget. */
export type Budget = Readonly<{ dollarsPerMillion: number; d1RowsRead: number; d1RowsWritten: number }>;

const QUEUE_OPERATIONS = 3;
/** The sweep's own, and the first contact with a destination. */
const ROUNDING = 1.01;

export function dollarsPerMillion({ units, cpuMs, delivered }: Entry): number {
  return (dollarsFor(units, cpuMs) / delivered) * 1_000_000;
}

/** The limits that a run has exceeded, each in words. */
export function excesses(entry: Entry): string[] {
  const { name, budget, units, delivered } = entry;
  if (!budget) return [];
  const limits: readonly [what: string, used: number, limit: number][] = [
    ["dollars per million", dollarsPerMillion(entry), budget.dollarsPerMillion],
    ["D1 rows written per delivery", units.d1RowsWritten / delivered, budget.d1RowsWritten * ROUNDING],
    ["D1 rows read per delivery", units.d1RowsRead / delivered, budget.d1RowsRead * ROUNDING],
    ["queue operations per delivery", queueOperations(units) / delivered, QUEUE_OPERATIONS * ROUNDING],
  ];
  return limits
    .filter(([, used, limit]) => used > limit)
    .map(([what, used, limit]) => `${name}: ${what} ${used.toFixed(2)}, budget ${limit.toFixed(2)}`);
}
