/** The stack's vital signs over time: memory, tables, files; and whether they stay as they are. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { StackProcess } from "../stack-process.ts";
import type { Findings } from "./checks.ts";

export type Sample = Readonly<{
  /** ms after the load has begun. */
  at: number;
  /** How often the stack had been started. */
  life: number;
  /** The heaps of the Workers' isolates after a garbage collection. */
  memoryBytes: number;
  rows: Readonly<Record<string, number>>;
  databaseBytes: number;
  objectBytes: number;
  /** Deliveries that had not ended. */
  open: number;
  inFlight: number;
  accepted: number;
}>;

/** Their rows stay: receipts and requests. They may grow by what was created, and no more. */
const KEPT = /^(replays|erasures|audit_entries|d1_migrations|mails|sessions|api_keys)$/;

/** How many rows each of the tables has in all databases. */
export async function rowsOf(
  stack: StackProcess,
  databases: readonly number[],
  tables: readonly string[],
): Promise<Record<string, number>> {
  const columns = tables.map((name) => `(SELECT count(*) FROM ${name}) AS ${name}`);
  const sums = Object.fromEntries(tables.map((name) => [name, 0]));
  for (const database of databases) {
    const [counted = {}] = await stack.query<Record<string, number>>(
      `SELECT ${columns.join(", ")}`,
      database,
    );
    for (const name of tables) sums[name] = (sums[name] ?? 0) + (counted[name] ?? 0);
  }
  return sums;
}

/** The bytes of the stored files below a directory whose path has the word. */
export function bytesIn(directory: string, word: string): number {
  try {
    const files = readdirSync(directory, { recursive: true, withFileTypes: true });
    return files
      .filter((file) => file.isFile() && file.parentPath.slice(directory.length).includes(word))
      .reduce((sum, file) => sum + sizeOf(join(file.parentPath, file.name)), 0);
  } catch {
    return 0;
  }
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

export type Trend = Readonly<{
  name: string;
  before: number;
  after: number;
  isFlat: boolean;
  isKept: boolean;
}>;

/** The growth that counts: by more than this size and this number. */
const GROWTH = 1.35;
const FEW_ROWS = 300;

/**
 * The medians of each table's rows in the first and in the last third of the time after `warmMs`.
 * Empty when there is too little to compare.
 */
export function tableTrends(samples: readonly Sample[], warmMs: number): Trend[] {
  const { early, late } = thirds(samples.filter(({ at }) => at >= warmMs));
  if (early.length < 5) return [];
  const names = Object.keys(early[0]?.rows ?? {});
  const sizes = ["databaseBytes", "objectBytes"] as const;
  const rows = names.map((name) => {
    const [before, after] = [early, late].map((some) => median(some.map((one) => one.rows[name] ?? 0))) as [
      number,
      number,
    ];
    const isFlat = after <= before * GROWTH + FEW_ROWS;
    return { name, before, after, isFlat, isKept: KEPT.test(name) };
  });
  const bytes = sizes.map((name) => {
    const [before, after] = [early, late].map((some) => median(some.map((one) => one[name]))) as [
      number,
      number,
    ];
    return { name, before, after, isFlat: after <= before * GROWTH, isKept: false };
  });
  return [...rows, ...bytes];
}

/** Memory is compared within the longest life, without its first minutes. */
const WARM_LIFE = 0.25;

export function memoryTrend(samples: readonly Sample[]): Trend | undefined {
  const lives = [...Map.groupBy(samples, ({ life }) => life).values()];
  const longest = lives.reduce((best, life) => (life.length > best.length ? life : best), []);
  const { early, late } = thirds(longest.slice(Math.floor(longest.length * WARM_LIFE)));
  if (early.length < 5) return undefined;
  const [before, after] = [early, late].map((some) => median(some.map((one) => one.memoryBytes))) as [
    number,
    number,
  ];
  return { name: "memory", before, after, isFlat: after <= before * GROWTH, isKept: false };
}

export function judgeTrends(findings: Findings, trends: readonly Trend[], memory: Trend | undefined): void {
  for (const trend of trends.filter(({ isKept }) => !isKept))
    findings.observe("tables", trend.isFlat, () => `${trend.name}: ${trend.before} → ${trend.after}`);
  if (memory) findings.observe("memory", memory.isFlat, () => `${memory.before} → ${memory.after} bytes`);
}

function thirds(samples: readonly Sample[]) {
  const third = Math.floor(samples.length / 3);
  return { early: samples.slice(0, third), late: third > 0 ? samples.slice(-third) : [] };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
