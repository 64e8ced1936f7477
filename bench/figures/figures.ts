/**
 * Every figure that a page may name, as Markdown: tables, and numbers for a line of prose. The steps and reasons of
 * troubleshooting, and the libraries that verify signatures, come from the source.
 */
import { remedies, steps } from "../../src/http/docs/remedies.ts";
import { libraries } from "../../src/pages/portal/libraries.ts";
import { snippetLanguages } from "../../src/pages/portal/snippets.ts";
import { costTable, meetsGoal } from "../cost/report.ts";
import { distanceTable } from "../distance/report.ts";
import { dimensionTable } from "../growth/dimensions.ts";
import { isolationTable, textOf } from "../isolation/report.ts";
import { latencyTable } from "../latency/report.ts";
import { fixed, table } from "../markdown.ts";
import { profileTable } from "../profile/report.ts";
import { type Bench, benches, type StormRow, saved } from "../results.ts";
import { sharedRows } from "../storm/shared-table.ts";
import { loadTable, titleOf } from "../throughput/report.ts";
import {
  byTrouble,
  contender,
  costOf,
  cpuRatio,
  found,
  inTheHour,
  micros,
  oursIn,
  peersTable,
  rateRow,
  stepsOf,
  stormGoal,
} from "./find.ts";
import { goalsTable } from "./goals.ts";

export const figures: Readonly<Record<string, () => string>> = {
  ...Object.fromEntries(benches.map((bench) => [`source-${bench}`, () => source(bench)])),
  goals: goalsTable,
  "troubleshooting-steps": () => steps.map((step, i) => `${i + 1}. ${step}`).join("\n"),
  "troubleshooting-reasons": remediesTable,
  "verification-libraries": librariesTable,

  cost: () => costTable(saved("cost")),
  sparse: () => costTable(saved("sparse")),
  "cost-readme": costReadme,
  "cost-range": () => `${fixed(whole("batches"), 1)} to ${fixed(whole("cold"))}`,
  "cost-alone": () => fixed(costOf("cold").dollars),
  "cost-rows-read": () => fixed(costOf("batches").used["rows read"], 2),
  "cost-single-rows": () => fixed(costOf("single").used["D1 rows written"], 3),
  "cost-alone-rows": () => fixed(costOf("cold").used["D1 rows written"]),
  "idle-dollars": () => fixed(saved("cost").idle.dollarsAMonth, 2),
  "idle-written": () => fixed(saved("cost").idle.rowsWritten),
  "idle-read": () => fixed(saved("cost").idle.rowsRead),

  growth: growthTable,
  dimensions: () => dimensionTable(saved("dimensions")),
  "growth-written": () => fixed(stepsOf("stored")[0]?.rowsWritten, 3),

  "throughput-single": () => loads("One by one"),
  "throughput-batches": () => loads("In batches"),
  "throughput-readme": throughputReadme,
  "throughput-capacity": throughputCapacity,

  latency: () => latencyTable(saved("latency")),
  distance: () => distanceTable(saved("distance")),

  profile: () => profileTable(saved("profile"), "in batches of 100"),
  "profile-single": () => fixed(micros("one by one", "delivered")),
  "profile-single-accepted": () => fixed(micros("one by one", "accepted, no destination")),
  "profile-duties": () => dutiesRatio("in batches of 100"),
  "profile-single-duties": () => dutiesRatio("one by one"),
  "profile-single-bare": () => fixed(micros("one by one", "by a bare Worker")),

  isolation: () => isolationTable(saved("isolation")),

  "storm-goals": stormGoals,
  "storm-hour": stormHour,
  "storm-readme": stormReadme,
  "storm-misjudged": () => fixed(stormGoal("misjudged").value, 2),
  "storm-weak": () => fixed(oursIn("weak").peak, 2),
  "storm-429": () => fixed(oursIn("429").peak, 2),
  "storm-shared": () => table(...sharedRows(saved("shared").runs)),
  "storm-noticed-hour": () => fixed(inTheHour("Breakwater").noticedS),
  "storm-noticed-10m": () => fixed(oursIn("outage-10m").noticedS),

  kills: killsTable,

  "peers-single": () => loadTable(peersTable("One by one")),
  "peers-batches": () => loadTable(peersTable("In batches")),
  "peers-rates": peersRates,
  "peers-notes": peersNotes,

  date: () => [...new Set(benches.map((bench) => saved(bench).source.date))].toSorted().join(" and "),
};

function source(bench: Bench): string {
  const { date, commit, command, machine } = saved(bench).source;
  return `\`${command}\`, ${date}, commit \`${commit}\`, ${machine}`;
}

/** Dollars a million, storage included. */
function whole(id: string): number {
  const { dollars, storage } = costOf(id);
  return dollars + storage;
}

function costReadme(): string {
  const rows = ["batches", "single", "every-4", "every-60", "cold"].map((id) => {
    const entry = costOf(id);
    const goal = fixed(entry.goal?.dollars, 2);
    return [entry.name, fixed(entry.dollars, 2), meetsGoal(entry) ? goal : `${goal}, **not met**`];
  });
  return table(["cost, dollars per million deliveries, without storage", "", "goal"], rows);
}

/** One row for each thing that grows: its steps differ only by how many messages happen to share a batch. */
function growthTable(): string {
  const span = (figures: readonly number[], digits?: number) =>
    [...new Set([Math.min(...figures), Math.max(...figures)].map((figure) => fixed(figure, digits)))].join(
      " to ",
    );
  const rows = saved("growth").tables.map(({ what, steps }) => [
    what,
    span(steps.map(({ size }) => size)),
    span(
      steps.map(({ rowsWritten }) => rowsWritten),
      3,
    ),
    span(
      steps.map(({ rowsRead }) => rowsRead),
      3,
    ),
  ]);
  return table(["what grows", "from, to", "rows written", "rows read"], rows);
}

function loads(shape: string): string {
  const one = found(saved("throughput").tables, ({ name }) => name === shape, shape);
  return `${titleOf(one)}\n\n${loadTable(one)}`;
}

const STACKS = ["Breakwater", "BullMQ + Redis", "BullMQ + Redis + Postgres"];

function throughputReadme(): string {
  const rates = (shape: string) => STACKS.map((name) => fixed(contender(shape, name).deliveredPerSecond));
  const arrival = (name: string) => {
    const { arrivalP50Ms, arrivalP99Ms } = rateRow(50, name);
    return `${fixed(arrivalP50Ms, 1)} and ${fixed(arrivalP99Ms, 1)} ms`;
  };
  const others = (name: string) => {
    const { p99 } = found(byTrouble("hangs"), (row) => row.name === name, name);
    return `${textOf(p99.with, 0).replace("> ", "more than ")} ms`;
  };
  const both = (of: (name: string) => string) => [...STACKS.slice(0, 2).map(of), "–"];
  return table(
    ["throughput and latency", ...STACKS],
    [
      ["batches of 100, delivered a second", ...rates("In batches")],
      ["one by one, delivered a second", ...rates("One by one")],
      ["accept to arrival at 50 a second, p50 and p99", ...both(arrival)],
      ["p99 of the others while one endpoint hangs", ...both(others)],
    ],
  );
}

function throughputCapacity(): string {
  const row = (title: string, shape: string) => {
    const { deliveredPerSecond, cpuSecondsPer1000 } = contender(shape, "Breakwater");
    return [title, fixed(deliveredPerSecond), fixed(cpuSecondsPer1000, 2)];
  };
  const rows = [row("batches of 100, 1 KB", "In batches"), row("one by one, 1 KB", "One by one")];
  return table(["", "delivered a second", "CPU s per 1,000"], rows);
}

function stormGoals(): string {
  const row = (what: string, limit: string, id: string, digits: number, unit = "") => {
    const { value, met } = stormGoal(id);
    return [what, limit, `${fixed(value, digits)}${unit}`, met ? "met" : "**not met**"];
  };
  return table(
    ["down for an hour, 50,000 deliveries", "goal", `seed ${saved("storm").seed}`, ""],
    [
      row("fullest second after the recovery ÷ what the receiver can take", "≤ 1.0", "peak", 2),
      row("second outages", "0", "outages", 0),
      row("attempts wasted", "≤ 100", "wasted", 0),
      row("time to drain ÷ the optimum", "≤ 1.15", "drain", 3),
      row("lost", "0", "lost", 0),
      row("wide drain: 100 at once, 100 ms each, so 1,000 a second at best", "≥ 800/s", "wide", 0, "/s"),
    ],
  );
}

const BESIDE = [
  "exponential, no jitter",
  "fixed 60 s, 40 attempts",
  "Svix (model)",
  "Outpost (model, 10 workers)",
  "Convoy (model)",
  "Breakwater",
];

function stormHour(): string {
  const rows = BESIDE.map(inTheHour).map(({ name, peak, secondOutages, wasted, drain, lost }) => [
    name,
    fixed(peak, 2),
    fixed(secondOutages),
    fixed(wasted),
    fixed(drain, 2),
    fixed(lost),
  ]);
  return table(["", "peak ÷ capacity", "second outages", "wasted", "drain ÷ optimum", "lost"], rows);
}

function stormReadme(): string {
  const senders = ["Breakwater", "exponential, no jitter", "Svix (model)"].map(inTheHour);
  const row = (what: string, read: (row: StormRow) => string) => [what, ...senders.map(read)];
  return table(
    ["an hour down, 50,000 deliveries", "Breakwater", "exponential backoff, no jitter", "Svix (model)"],
    [
      row("attempts wasted", ({ wasted }) => fixed(wasted)),
      row("fullest second after recovery ÷ capacity", ({ peak }) => fixed(peak, 2)),
      row("time to drain ÷ optimum", ({ drain }) => fixed(drain, 2)),
    ],
  );
}

function killsTable(): string {
  const {
    source,
    accepted,
    unanswered,
    deliveries,
    lost,
    duplicates,
    mostForOneKill,
    inFlight,
    unexplained,
  } = saved("kills");
  const inAll = (events: number, died: number) =>
    `${fixed(events)}, and ${died} whose answer died with the stack`;
  const most = (n: number) => `${n} of the ${inFlight} that can be in flight`;
  const head = [
    "",
    "events accepted",
    "deliveries",
    "lost",
    "duplicates",
    "most for one kill",
    "duplicates without a kill",
  ];
  const latest = [inAll(accepted, unanswered), fixed(deliveries), fixed(lost), fixed(duplicates)];
  return table(head, [[source.date, ...latest, most(mostForOneKill), fixed(unexplained)]]);
}

function dutiesRatio(shape: string): string {
  return fixed(cpuRatio(shape, "by one with the same duties").median, 2);
}

function peersRates(): string {
  const { contenders } = peersTable("One by one");
  return contenders.map((one) => `${one.name} ${fixed(one.deliveredPerSecond)}`).join(", ");
}

/** The settings of the contenders that name them. */
function peersNotes(): string {
  const noted = peersTable("One by one").contenders.filter(({ settings }) => settings !== "");
  return noted.map(({ name, settings }) => `${name}: ${settings}`).join(". ");
}

function librariesTable(): string {
  const rows = Object.entries(libraries).map(
    ([name, { install }]) => `| ${snippetLanguages[name as keyof typeof libraries]} | \`${install}\` |`,
  );
  return ["| language | library |", "|---|---|", ...rows].join("\n");
}

function remediesTable(): string {
  const rows = remedies.map(({ reason, meaning, remedy }) => `| \`${reason}\` | ${meaning} | ${remedy} |`);
  return ["| `reason` | | what to do |", "|---|---|---|", ...rows].join("\n");
}
