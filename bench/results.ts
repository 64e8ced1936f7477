/**
 * Saved results of the benches: one file for each bench in bench/results/, from which `npm run figures` writes the
 * tables of docs/benchmarks.md and of the README. A bench writes its file when it is called with `--save`.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { machineParts } from "./machine.ts";

const PLACE = `${import.meta.dirname}/results`;

/** When, where and how figures were measured. */
export type Source = Readonly<{
  /** As `2026-11-22`. */
  date: string;
  /** The commit that was checked out, with a `+` if measured files had uncommitted changes. */
  commit: string;
  command: string;
  machine: string;
}>;

/** The results of each bench. Numbers are saved unrounded; pages round them. */
export type Results = Readonly<{
  cost: CostResults;
  sparse: Pick<CostResults, "entries">;
  growth: GrowthResults;
  dimensions: DimensionResults;
  throughput: ThroughputResults;
  latency: LatencyResults;
  distance: DistanceResults;
  profile: ProfileResults;
  isolation: IsolationResults;
  storm: StormResults;
  shared: SharedResults;
  kills: KillResults;
  peers: PeerResults;
}>;
export type Bench = keyof Results;
export type Saved<B extends Bench> = Readonly<{ source: Source }> & Results[B];

/** The figures of one run: `used` is per delivery, dollars are per million deliveries. */
export type CostEntry = Readonly<{
  id: string;
  name: string;
  delivered: number;
  used: Readonly<Record<string, number>>;
  dollars: number;
  storage: number;
  goal?: Readonly<{ dollars: number; storage?: number }>;
}>;
export type CostResults = Readonly<{
  entries: readonly CostEntry[];
  /** Rows of a minute without traffic, and dollars for a month of such minutes. */
  idle: Readonly<{ rowsWritten: number; rowsRead: number; dollarsAMonth: number }>;
}>;

export type DistanceRow = Readonly<{
  distanceMs: number;
  perSecond: number;
  acceptP50Ms: number;
  acceptP99Ms: number;
  arrivalP50Ms: number;
  arrivalP99Ms: number;
  /** How long after the last post the last event arrived. */
  behindMs: number;
}>;
export type DistanceResults = Readonly<{
  seconds: number;
  destinations: number;
  rows: readonly DistanceRow[];
}>;

export type GrowthResults = Readonly<{
  tables: readonly Readonly<{
    id: string;
    what: string;
    steps: readonly Readonly<{ size: number; rowsWritten: number; rowsRead: number }>[];
  }>[];
}>;

/** One table for each thing that grows. Figures are per event, unless the name says otherwise. */
export type DimensionResults = Readonly<{
  dimensions: readonly Readonly<{ id: string; what: string; steps: readonly DimensionStep[] }>[];
}>;

export type DimensionStep = Readonly<{
  size: number;
  rowsRead: number;
  rowsWritten: number;
  queries: number;
  gateCalls: number;
  /** KB of memory that one isolate or intake object holds at the end, measured by releasing them all. */
  isolateKb: number;
  /** Queries of one cron run afterwards. */
  cronQueries: number;
  cronRowsRead: number;
}>;

/** Medians over the rounds. */
export type LoadFigures = Readonly<{
  name: string;
  settings: string;
  /** Deliveries a second of the first contender ÷ of this one: the median of the rounds' ratios. */
  ratio: number;
  acceptedPerSecond: number;
  deliveredPerSecond: number;
  ingestP50Ms: number;
  ingestP99Ms: number;
  deliveredP50Ms: number;
  deliveredP99Ms: number;
  /** Absent if the processes that do the work are not known. */
  cpuSecondsPer1000?: number;
  megabytes?: number;
}>;
export type LoadTable = Readonly<{
  name: string;
  events: number;
  perPost: number;
  connections: number;
  rounds: number;
  contenders: readonly LoadFigures[];
}>;
export type ThroughputResults = Readonly<{ tables: readonly LoadTable[] }>;
export type PeerResults = Readonly<{ endpoints: number; tables: readonly LoadTable[] }>;

export type LatencyRow = Readonly<{
  perSecond: number;
  name: string;
  acceptP50Ms: number;
  acceptP99Ms: number;
  arrivalP50Ms: number;
  arrivalP99Ms: number;
}>;
export type LatencyResults = Readonly<{ rounds: number; rows: readonly LatencyRow[] }>;

/** Microseconds of CPU for each event, by kind of work. */
export type ProfileResults = Readonly<{
  columns: readonly Readonly<{
    shape: string;
    what: string;
    micros: number;
    parts: Readonly<Record<string, number>>;
  }>[];
  /** An entrant's CPU ÷ the bare Worker's: median and range over the rounds. */
  ratios: readonly Readonly<{ shape: string; what: string; median: number; least: number; most: number }>[];
}>;

/** A measured value, or with `more` a lower bound: the measurement ended first. */
export type AtLeast = Readonly<{ value: number; more: boolean }>;
export type IsolationResults = Readonly<{
  rounds: number;
  rows: readonly Readonly<{
    trouble: string;
    name: string;
    /** The figures of the healthy destinations, without the trouble and with it, and their ratio. */
    p50: Readonly<{ without: AtLeast; with: AtLeast; ratio: AtLeast }>;
    p99: Readonly<{ without: AtLeast; with: AtLeast; ratio: AtLeast }>;
  }>[];
}>;

export type StormRow = Readonly<{
  name: string;
  peak: number;
  secondOutages: number;
  wasted: number;
  /** Absent if the backlog never drained. */
  drain?: number;
  lost: number;
  /** Seconds from the recovery to the next request; absent if there was none. */
  noticedS?: number;
}>;

/** The figures of a host that many tenants share and that is down for an hour. */
export type SharedReceiver = Readonly<{
  /** Requests in the fullest second after the recovery ÷ capacity. */
  peak: number;
  secondOutages: number;
  wasted: number;
  /** From the recovery until nothing is older than three seconds ÷ the time at the best possible rate. */
  drain: number;
  /** Jain's index of the deliveries that each tenant has got half-way through the drain. */
  fairness: number;
  /** From acceptance to delivery at other hosts, for events accepted from the outage to the end of the drain. */
  others: Quantiles;
  /** The same events in a run in which the host is never down. */
  undisturbed: Quantiles;
  lost: number;
}>;

type Quantiles = Readonly<{ p50Ms: number; p99Ms: number }>;

export type StormResults = Readonly<{
  seed: number;
  goals: readonly Readonly<{ id: string; value: number; met: boolean }>[];
  /** Every sender in the one-hour outage. */
  hour: readonly StormRow[];
  /** Breakwater in every scenario; the name is the scenario's. */
  ours: readonly StormRow[];
}>;

/** How much slower other hosts are during the storm: the larger of the ratios of their p50 and p99. */
export function othersRatio({ others, undisturbed }: SharedReceiver): number {
  return Math.max(others.p50Ms / undisturbed.p50Ms, others.p99Ms / undisturbed.p99Ms);
}

export type SharedResults = Readonly<{
  seed: number;
  runs: readonly (Readonly<{ name: string; isGrouped: boolean }> & SharedReceiver)[];
}>;

export type KillResults = Readonly<{
  kills: number;
  seed: number;
  seconds: number;
  accepted: number;
  unanswered: number;
  deliveries: number;
  lost: number;
  duplicates: number;
  mostForOneKill: number;
  inFlight: number;
  unexplained: number;
}>;

/** The words of the command line that are not flags, and whether `--save` is given. */
export function benchArgs(): Readonly<{ words: readonly string[]; save: boolean }> {
  const given = process.argv.slice(2);
  return { words: given.filter((word) => !word.startsWith("-")), save: given.includes("--save") };
}

/** @param given the words of the command line to record, if the actual ones hold secrets */
export function save<B extends Bench>(
  bench: B,
  results: Results[B],
  given = process.argv.slice(2).filter((word) => word !== "--save"),
): void {
  const source: Source = {
    date: new Date().toISOString().slice(0, 10),
    commit: commit(),
    command: ["npm run", SCRIPTS[bench], ...(given.length > 0 ? ["--", ...given] : [])].join(" "),
    machine: machineParts(),
  };
  writeFileSync(fileOf(bench), `${JSON.stringify({ source, ...results }, null, 2)}\n`);
  console.log(`\nSaved. \`npm run figures\` writes them into the documentation.`);
}

export function saved<B extends Bench>(bench: B): Saved<B> {
  return JSON.parse(readFileSync(fileOf(bench), "utf8")) as Saved<B>;
}

/** The npm script of each bench. */
const SCRIPTS: Readonly<Record<Bench, string>> = {
  cost: "bench:cost",
  sparse: "bench:sparse",
  growth: "bench:growth",
  dimensions: "bench:growth",
  throughput: "bench:throughput",
  latency: "bench:latency",
  distance: "bench:distance",
  profile: "bench:profile",
  isolation: "bench:isolation",
  storm: "bench:storm",
  shared: "bench:storm",
  kills: "test:kill",
  peers: "bench:peers",
};

export const benches = Object.keys(SCRIPTS) as Bench[];

function fileOf(bench: Bench): string {
  return `${PLACE}/${bench}.json`;
}

/** Paths that figures depend on. Benches write other files while they run. */
const MEASURED = [":/src", ":/migrations", ":/wrangler.toml", ":/package-lock.json"];

/** The commit that is checked out, with a `+` if any of these paths has uncommitted changes. */
export function commit(places: readonly string[] = MEASURED): string {
  const git = (...args: string[]) => execFileSync("git", args, { cwd: PLACE }).toString().trim();
  const changed = git("status", "--porcelain", "--", ...places) !== "";
  return `${git("rev-parse", "--short", "HEAD")}${changed ? "+" : ""}`;
}
