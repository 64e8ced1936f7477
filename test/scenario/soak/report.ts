/** The report of a soak, in Markdown. */
import { machine } from "../../../bench/machine.ts";
import { table } from "../../../bench/markdown.ts";
import { checks } from "./checks.ts";
import { customersOf } from "./customers.ts";
import type { SoakFigures } from "./run.ts";
import type { Trend } from "./vitals.ts";

export type Circumstances = Readonly<{
  /** The commit that was run. */
  commit: string;
  former: string;
  /** Where the picture is, from the report. */
  picture: string;
  /** Load averages of the machine at the beginning and at the end. */
  load: readonly [number, number];
}>;

export function report(figures: SoakFigures, circumstances: Circumstances): string {
  const { minutes, seed, rate, size, startedAt, loadMs, drainMs, counts, made } = figures;
  const { commit, former, picture, load } = circumstances;
  const perSecond = (count: number) => (count / (loadMs / 1_000)).toFixed(1);
  const violations = figures.findings.reduce((sum, { count }) => sum + count, 0);
  return `## Report

${new Date(startedAt).toISOString().slice(0, 16).replace("T", " ")} UTC, commit \`${commit}\`, former version \`${former}\`,
\`--minutes ${minutes} --rate ${rate} --seed ${seed} --tenants ${size.tenants} --databases ${size.databases} --isolates ${size.isolates}\`. ${machine()} The load average of the machine was ${load[0].toFixed(1)} at
the beginning and ${load[1].toFixed(1)} at the end.

**${violations} violations.** ${number(counts.accepted)} events were accepted, ${perSecond(counts.accepted)} a second, of ${rate} that were
offered${figures.skipped > 0 ? `; ${number(figures.skipped)} were not posted, because the stack did not keep up with the machine as it was` : ""}.
${number(counts.requests)} requests came to the receivers, ${perSecond(counts.requests)} a second. After the load had ended, everything had
ended within ${Math.round(drainMs / 1_000)} s.

${table(
  ["", "", ""],
  [
    [
      "events",
      number(counts.accepted),
      `and ${number(counts.unanswered)} whose request had no answer and was not repeated`,
    ],
    [
      "deliveries",
      number(counts.deliveries),
      `${number(counts.delivered)} delivered (repeats on request included), ${number(counts.dead)} dead, ${counts.cancelled} cancelled, ${counts.erased} erased, ${counts.expired} expired`,
    ],
    ["requests", number(counts.requests), `${number(counts.failedRequests)} failed, were refused, or hung`],
    [
      "repeats",
      number(counts.afterKill + counts.timedOut),
      `${counts.afterKill} after a kill, ${counts.timedOut} answered about when the sender timed out`,
    ],
    ["sent again on request", number(counts.onRequest), `${made.retried} retries, ${made.replays} replays`],
    [
      "under way",
      number(counts.underWay),
      "came within 5 s of a request for quiet, a cancellation or an erasure",
    ],
    [
      "posted again",
      number(made.repeats),
      `without an answer, or after a 503; ${made.keyedTwice} more were posted twice on purpose`,
    ],
    [
      "kills",
      String(figures.kills),
      `and ${figures.deploys} deployments to the former version and back, with two restarts each`,
    ],
    ["limits changed", String(figures.limitChanges), "by hand, in D1"],
  ],
)}

### What was counted

${table(
  ["invariant", "check", "observations", "violations"],
  figures.findings.map(({ check, observed, count }) => {
    const [invariant, text] = checks[check];
    return [invariant, text, number(observed), count === 0 ? "0" : `**${count}**`];
  }),
)}
${seenIn(figures)}
### Over time

![Memory, backlog and stored bundles during the soak](${picture})

Events are made two days older by hand when they are ${Math.round(figures.ageMs / 60_000)} minutes old, so that retention (\`RETENTION_DAYS = 1\`) removes them.
Medians of the first and of the last third of the time after that; memory is what
the isolates of the Workers hold after a collection of garbage, within the longest life of the process, without its first
quarter.

${table(
  ["", "first third", "last third", ""],
  [...(figures.memory ? [figures.memory] : []), ...figures.trends].map(trendRow),
)}

### Delays

From the post to the first arrival, of what was not scheduled. What has no trouble of its own shows the kills and the machine.

${table(
  ["endpoint", "events", "p50", "p90", "p99"],
  [...new Set(customersOf(size.tenants).all.map(({ path, shownAs = path }) => shownAs))].map((path) => {
    const delays = (figures.delays[path] ?? []).toSorted((a, b) => a - b);
    const at = (q: number) => seconds(delays[Math.floor(delays.length * q)] ?? 0);
    return [path, number(delays.length), at(0.5), at(0.9), at(0.99)];
  }),
)}

Log lines: ${Object.entries(figures.logged)
    .toSorted(([, a], [, b]) => b - a)
    .map(([kind, count]) => `${kind} ${number(count)}`)
    .join(", ")}.
`;
}

function seenIn({ findings }: SoakFigures): string {
  const seen = findings.filter(({ count }) => count > 0);
  if (seen.length === 0) return "";
  const lists = seen.map(({ check, count, seen }) => [`${check}: ${count}`, ...seen].join("\n"));
  return `\n\`\`\`\n${lists.join("\n\n")}\n\`\`\`\n`;
}

function trendRow({ name, before, after, isFlat, isKept }: Trend): string[] {
  const shown = (value: number) =>
    /bytes|memory/i.test(name) ? `${(value / 1e6).toFixed(1)} MB` : number(value);
  const judged = isFlat ? "flat" : "**grows**";
  return [name, shown(before), shown(after), isKept ? "kept on purpose" : judged];
}

function seconds(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

function number(value: number): string {
  return value.toLocaleString("en-US");
}
