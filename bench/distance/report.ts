/** The table of distances, and the number of sequential calls that follows from it. */
import { fixed, table } from "../markdown.ts";
import type { DistanceResults, DistanceRow } from "../results.ts";

export function distanceTable(results: DistanceResults): string {
  const head = [
    "distance ms",
    "events a second",
    "accept p50, p99 ms",
    "accept to arrival p50, p99 ms",
    "behind ms",
  ];
  const rows = results.rows.map((row) => [
    fixed(row.distanceMs),
    fixed(row.perSecond),
    `${fixed(row.acceptP50Ms)}, ${fixed(row.acceptP99Ms)}`,
    `${fixed(row.arrivalP50Ms)}, ${fixed(row.arrivalP99Ms)}`,
    fixed(row.behindMs),
  ]);
  const { accept, arrival } = sequentialCalls(results.rows);
  const slope = `Sequential calls of an event that comes alone: ${fixed(accept, 1)} to the answer, ${fixed(arrival, 1)} from there to the arrival.`;
  return `${table(head, rows)}\n\n${slope}`;
}

/**
 * How many milliseconds each millisecond of distance adds to an event that comes alone: a least-squares fit over the
 * distances.
 */
function sequentialCalls(rows: readonly DistanceRow[]) {
  const least = Math.min(...rows.map(({ perSecond }) => perSecond));
  const alone = rows.filter(({ perSecond }) => perSecond === least);
  const slope = (msOf: (row: DistanceRow) => number) => {
    const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
    const [x, y] = [mean(alone.map(({ distanceMs }) => distanceMs)), mean(alone.map(msOf))];
    const over = alone.reduce((sum, row) => sum + (row.distanceMs - x) * (msOf(row) - y), 0);
    return over / alone.reduce((sum, { distanceMs }) => sum + (distanceMs - x) ** 2, 0);
  };
  return { accept: slope((row) => row.acceptP50Ms), arrival: slope((row) => row.arrivalP50Ms) };
}
