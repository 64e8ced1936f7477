/** The figures as a table. */
import { fixed, table } from "../markdown.ts";
import type { LatencyResults, LatencyRow } from "../results.ts";

export function latencyTable({ rows }: LatencyResults): string {
  const head = ["events a second", "", "accept p50, p99 ms", "accept to arrival p50, p99 ms"];
  return table(head, rows.map(latencyCells));
}

export function latencyCells(row: LatencyRow): string[] {
  const accept = `${fixed(row.acceptP50Ms, 1)}, ${fixed(row.acceptP99Ms, 1)}`;
  const arrival = `${fixed(row.arrivalP50Ms, 1)}, ${fixed(row.arrivalP99Ms, 1)}`;
  return [fixed(row.perSecond), row.name, accept, arrival];
}
