/** The figures as Markdown, ready for docs/benchmarks.md: what was measured, the table, and how to read it. */
import { machine } from "../machine.ts";
import { table } from "../markdown.ts";
import type { AtLeast, IsolationResults } from "../results.ts";
import type { Contender } from "../throughput/contender.ts";
import { type Fault, HEALTHY, none, troubles } from "./faults.ts";
import { CONTACT_MS, median, type PhaseFigures, type Quantiles, ratio } from "./figures.ts";
import { HEALTHY_PER_SECOND } from "./phase.ts";

/** One round of one contender: once with each trouble, and once with none. */
export type Round = ReadonlyMap<Fault, PhaseFigures>;

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
  const head = ["the one", "", "p50, ms", "ratio", "p99, ms", "ratio"];
  const isNew = ({ trouble }: Row, i: number) => trouble !== rows[i - 1]?.trouble;
  return table(
    head,
    rows.map((row, i) => [isNew(row, i) ? row.trouble : "", row.name, ...cells(row.p50), ...cells(row.p99)]),
  );
}

function introduction(rounds: number): string {
  const backlogged = troubles.find(({ waiting }) => waiting > 0) ?? none;
  return `${HEALTHY} healthy destinations take ${HEALTHY_PER_SECOND} events a second between them, and one more takes ${none.perSecond}: it is well, or it hangs or fails from one moment to the next, or it works off what waits for it (and takes ${backlogged.perSecond} new events a second). The time is from the post to the arrival at the healthy ones; a ratio is that of the same round, to the phase in which the one is well; medians of ${rounds} rounds in alternating order.`;
}

function rowOf({ contender, rounds }: Series, trouble: Fault): Row {
  const pairs = rounds.flatMap((round) => {
    const [without, its] = [round.get(none), round.get(trouble)];
    return without && its ? [{ without: without.whole, with: its.whole }] : [];
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

/** Large numbers without decimals, grouped. */
export function textOf({ value, more }: AtLeast, digits: number): string {
  const shown = value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(digits);
  return more ? `> ${shown}` : shown;
}

const READING = `“>”: had not arrived when the phase was over. The one has been well until the phase begins; the first ${CONTACT_MS / 1000} s count as the first contact. Until it is known that it hangs, a batch waits for it as long as twenty times what it has taken before, a fifth of a second here. The one with a backlog works it off meanwhile, ten at once, 100 ms each; what is new for it takes as long, and so does a batch that brings it. In the local simulator one consumer takes one batch after the other, so that whatever makes a batch last longer delays the next, and everything runs on one thread; in production other consumers can take the next batch.

BullMQ's hundred places are shared by all destinations, and its jobs go in the order in which they came: whoever needs more has to build a queue for each destination, or buy the groups of BullMQ Pro.`;

function settings(series: readonly Series[]): string {
  const lines = series.map(
    ({ contender: { name, settings } }) => `- ${name}: ${settings}; ten at once for each destination`,
  );
  return [machine(), "", ...lines].join("\n");
}
