/**
 * What the benches have found, in bench/results/: one file for each bench, from which `npm run figures` writes the
 * tables of docs/benchmarks.md and of the README. A bench writes its file when it is called with `--save`.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { machineParts } from "./machine.ts";

const PLACE = `${import.meta.dirname}/results`;

/** Where figures come from. */
export type Source = Readonly<{
  /** As `2026-11-22`. */
  date: string;
  /** What was checked out; with a `+` where what is measured had been changed since. */
  commit: string;
  command: string;
  machine: string;
}>;

/** What each bench saves. Numbers are not rounded: pages round them. */
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

/** For each delivery, but `delivered`. Dollars are for a million. */
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
  /** A minute in which nothing happens, and a month of such minutes in dollars. */
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

/** By what grows; for each event but where the name says otherwise. */
export type DimensionResults = Readonly<{
  dimensions: readonly Readonly<{ id: string; what: string; steps: readonly DimensionStep[] }>[];
}>;

export type DimensionStep = Readonly<{
  size: number;
  rowsRead: number;
  rowsWritten: number;
  queries: number;
  gateCalls: number;
  /** What an isolate, or an intake object, remembers at the end, in KB: the memory that is free without them. */
  isolateKb: number;
  /** Of a run of the cron after that. */
  cronQueries: number;
  cronRowsRead: number;
}>;

/** Medians over the rounds. */
export type LoadFigures = Readonly<{
  name: string;
  settings: string;
  /** Delivered a second by the first contender ÷ by this one, round by round. */
  ratio: number;
  acceptedPerSecond: number;
  deliveredPerSecond: number;
  ingestP50Ms: number;
  ingestP99Ms: number;
  deliveredP50Ms: number;
  deliveredP99Ms: number;
  /** Absent where it is not known which processes do the work. */
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

/** Microseconds of CPU for each event, by what they are spent on. */
export type ProfileResults = Readonly<{
  columns: readonly Readonly<{
    shape: string;
    what: string;
    micros: number;
    parts: Readonly<Record<string, number>>;
  }>[];
  /** A delivery's CPU ÷ the bare Worker's, of the rounds. */
  ratios: readonly Readonly<{ shape: string; median: number; least: number; most: number }>[];
}>;

/** `more`: it had not ended when it was looked at, so that it is so much at least. */
export type AtLeast = Readonly<{ value: number; more: boolean }>;
export type IsolationResults = Readonly<{
  rounds: number;
  rows: readonly Readonly<{
    trouble: string;
    name: string;
    /** Of the healthy ones, without the trouble and with it, and their ratio. */
    p50: Readonly<{ without: AtLeast; with: AtLeast; ratio: AtLeast }>;
    p99: Readonly<{ without: AtLeast; with: AtLeast; ratio: AtLeast }>;
  }>[];
}>;

export type StormRow = Readonly<{
  name: string;
  peak: number;
  secondOutages: number;
  wasted: number;
  /** Absent where it never drained. */
  drain?: number;
  lost: number;
  /** From the recovery to the next request; absent where there was none. */
  noticedS?: number;
}>;

/** A host that many tenants share, which is down for an hour. */
export type SharedReceiver = Readonly<{
  /** Requests in the fullest second after the recovery ÷ capacity. */
  peak: number;
  secondOutages: number;
  wasted: number;
  /** From the recovery until nothing is older than three seconds ÷ the time at the best possible rate. */
  drain: number;
  /** Jain's index of what each tenant has got half-way through the drain. */
  fairness: number;
  /** From acceptance to delivery at other hosts, of what is accepted from the outage to the end of the drain. */
  others: Quantiles;
  /** Of the same events, where the host is never down. */
  undisturbed: Quantiles;
  lost: number;
}>;

type Quantiles = Readonly<{ p50Ms: number; p99Ms: number }>;

export type StormResults = Readonly<{
  seed: number;
  goals: readonly Readonly<{ id: string; value: number; met: boolean }>[];
  /** Every sender in the outage of an hour. */
  hour: readonly StormRow[];
  /** Breakwater in every scenario, which are the names here. */
  ours: readonly StormRow[];
}>;

/** The p50 and p99 of other hosts during the storm ÷ without one: the larger ratio. */
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

/** The words of the command line behind the script's name, and whether the figures are to be saved. */
export function benchArgs(): Readonly<{ words: readonly string[]; save: boolean }> {
  const given = process.argv.slice(2);
  return { words: given.filter((word) => !word.startsWith("-")), save: given.includes("--save") };
}

/** @param given the words of the command line to show, where they hold a secret */
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

/** The script of each bench. */
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

/** What figures depend on; other files are written while benches run. */
const MEASURED = [":/src", ":/migrations", ":/wrangler.toml", ":/package-lock.json"];

/** The commit that is checked out, with a `+` where any of these places has been changed since. */
export function commit(places: readonly string[] = MEASURED): string {
  const git = (...args: string[]) => execFileSync("git", args, { cwd: PLACE }).toString().trim();
  const changed = git("status", "--porcelain", "--", ...places) !== "";
  return `${git("rev-parse", "--short", "HEAD")}${changed ? "+" : ""}`;
}
