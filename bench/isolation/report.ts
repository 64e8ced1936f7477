/** The figures as Markdown, ready for docs/benchmarks.md: what was measured, the table, and how to read it. */
import { machine } from "../machine.ts";
import { table } from "../markdown.ts";
import type { AtLeast, IsolationResults } from "../results.ts";
import type { Contender } from "../throughput/contender.ts";
import { type Fault, HEALTHY, none, troubles } from "./faults.ts";
import { median, type Quantiles, ratio } from "./figures.ts";
import { HEALTHY_PER_SECOND } from "./phase.ts";

/** One round of one contender: once with each trouble, and once with none. */
export type Round = ReadonlyMap<Fault, Quantiles>;

export type Series = Readonly<{ contender: Contender; rounds: readonly Round[] }>;

type Row = IsolationResults["rows"][number];

export function resultsOf(series: readonly Series[]): IsolationResults {
  const rows = troubles.flatMap((trouble) => series.map((one) => rowOf(one, trouble)));
  return { rounds: series[0]?.rounds.length ?? 0, rows };
}

export function report(series: readonly Series[]): string {
  const results = resultsOf(series);
  return [introduction(results.rounds), isolationTable(results), READING, settings(series)].join("\n\n");
}

export function isolationTable({ rows }: IsolationResults): string {
  const head = ["one destination", "", "p50, ms", "ratio", "p99, ms", "ratio"];
  const isNew = ({ trouble }: Row, i: number) => trouble !== rows[i - 1]?.trouble;
  return table(
    head,
    rows.map((row, i) => [isNew(row, i) ? row.trouble : "", row.name, ...cells(row.p50), ...cells(row.p99)]),
  );
}

function introduction(rounds: number): string {
  const backlogged = troubles.find(({ waiting }) => waiting > 0) ?? none;
  return `${HEALTHY} healthy destinations take ${HEALTHY_PER_SECOND} events a second between them. One more takes ${none.perSecond}: it is well, it suddenly hangs or fails, or it works off a backlog (and takes ${backlogged.perSecond} new events a second). Times are from the post to the arrival at the healthy destinations. Ratios compare with the phase of the same round in which the one destination is well. Medians of ${rounds} rounds in alternating order.`;
}

function rowOf({ contender, rounds }: Series, trouble: Fault): Row {
  const pairs = rounds.flatMap((round) => {
    const [without, its] = [round.get(none), round.get(trouble)];
    return without && its ? [{ without, with: its }] : [];
  });
  const of = (q: keyof Quantiles) => ({
    without: median(pairs.map(({ without }) => without[q])),
    with: median(pairs.map((pair) => pair.with[q])),
    ratio: median(pairs.map((pair) => ratio(pair.with[q], pair.without[q]))),
  });
  return { trouble: trouble.name, name: contender.name, p50: of("p50"), p99: of("p99") };
}

function cells(of: Row["p50"]): string[] {
  const digits = digitsFor(of.without);
  return [`${textOf(of.without, digits)} → ${textOf(of.with, digits)}`, textOf(of.ratio, 2)];
}

function digitsFor({ value }: AtLeast): number {
  return value < 20 ? 1 : 0;
}

/** Rounds a figure: numbers from 100 on have no decimals. */
export function textOf({ value, more }: AtLeast, digits: number): string {
  const shown = value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(digits);
  return more ? `> ${shown}` : shown;
}

const READING = `“>”: had not arrived when the phase ended. The one destination is well until the phase begins. Until Breakwater knows that it hangs, a batch waits for it up to twenty times as long as it has taken before, here a fifth of a second. A backlog is worked off during the phase, ten at once at 100 ms each; new events for that destination take as long, and so does a batch with one of them. In the local simulator one consumer takes one batch after the other, and everything runs on one thread, so whatever prolongs a batch delays the next; in production other consumers can take the next batch.

All destinations share BullMQ's hundred places, and its jobs run in the order in which they came. To isolate destinations, one needs a queue for each, or the groups of BullMQ Pro.`;

function settings(series: readonly Series[]): string {
  const lines = series.map(
    ({ contender: { name, settings } }) => `- ${name}: ${settings}; ten at once for each destination`,
  );
  return [machine(), "", ...lines].join("\n");
}
