/**
 * The comparisons behind the default policy: outages of days with little traffic, its jitter, and a server that is up
 * and refuses. Everything runs behind the gate, as a destination's own policy does.
 */

import type { RetrySpec } from "../../src/core/retry/policy.ts";
import { presets } from "../../src/core/retry/presets.ts";
import { fixed } from "../markdown.ts";
import { type Outcome, outcomeRun } from "./compare.ts";
import { behindTheGate } from "./contenders.ts";
import type { Section } from "./runs.ts";
import { erratic, outageOfAnHour, quiet, refused, type Scenario, WEEKENDS, weekend } from "./scenarios.ts";
import { alignedTable, duration } from "./table.ts";

type Variant = Readonly<{ name: string; retry: RetrySpec }>;

/** A part of the report: its title and text, and the figures that it compares. */
export type PolicyFigures = Readonly<{
  title: string;
  says: string;
  outcomes: readonly (Outcome & Readonly<{ scenario: string; variant: string }>)[];
}>;

const DEFAULT: Variant = { name: "breakwater", retry: {} };
const BEFORE: Variant = {
  name: "16 attempts, 72 h",
  retry: { max_attempts: 16, give_up_after: 72 * 3600 },
};
const FULL: Variant = { name: "full jitter", retry: { jitter: "full" } };
const DECORRELATED: Variant = { name: "decorrelated jitter", retry: { jitter: "decorrelated" } };

const HOUR = 3_600_000;

type Part = Readonly<{
  title: string;
  says: string;
  runs: readonly (readonly [Scenario, readonly Variant[]])[];
}>;

/** @param status one that the default retries for a limited number of times */
function refusals(status: number): Part["runs"] {
  const variants: Variant[] = [
    { name: "ended at once", retry: { on: { fail: [status] } } },
    { name: `${presets.breakwater.rules.attemptLimits[`http_${status}`]} attempts (the default)`, retry: {} },
    { name: "until the age limit", retry: { on: { retry: [status] } } },
  ];
  return [
    [refused(`${status} for 1 h`, status, HOUR), variants],
    [refused(`${status} for 24 h`, status, 24 * HOUR), variants],
    // Longer than the age limit, so for these deliveries the same as for ever.
    [refused(`${status} for 4 days`, status, 96 * HOUR), variants],
  ];
}

const parts: readonly Part[] = [
  {
    title: "A weekend",
    says: "Down for two days, and for three less a minute.",
    runs: [
      ...[WEEKENDS.two, WEEKENDS.three].flatMap((lastMs) =>
        [1, 60].map((perHour) => [weekend(lastMs, perHour), [BEFORE, FULL, DEFAULT]] as const),
      ),
    ],
  },
  {
    title: "Jitter",
    says: "The default schedule with each kind of jitter.",
    runs: [outageOfAnHour(3_000), quiet, erratic].map(
      (scenario) => [scenario, [FULL, DECORRELATED, DEFAULT]] as const,
    ),
  },
  {
    title: "A server that is up and refuses",
    says: "60 an hour for as long as it lasts, a day at most. A destination that refuses more than a hundred deliveries for good is paused: deliveries posted from then on wait for a person and are open here.",
    runs: refusals(423),
  },
  {
    title: "A busy weekend",
    says: "As above, with an event a second, a minute's in one post.",
    runs: [WEEKENDS.two, WEEKENDS.three].map((lastMs) => [weekend(lastMs, 3_600, 60), [DEFAULT]] as const),
  },
];

/** Returns the parts in the order of their length. */
export function policyFigures(seed: number): Section<PolicyFigures>[] {
  return parts.map(({ title, says, runs }) => {
    const outcomes = runs.flatMap(([scenario, variants]) =>
      variants.map(({ name, retry }) => ({
        scenario: scenario.title,
        variant: name,
        run: outcomeRun(scenario, behindTheGate(name, retry), seed),
      })),
    );
    return {
      runs: outcomes.map(({ run }) => run),
      read: (played) => ({
        title,
        says,
        outcomes: outcomes.map(({ run, ...shown }) => ({ ...shown, ...played(run) })),
      }),
    };
  });
}

export function policySection({ title, says, outcomes }: PolicyFigures): string[] {
  const rows = outcomes.map(({ scenario, variant, deliveries, figures, ...recovered }) => [
    scenario,
    variant,
    fixed(deliveries),
    fixed(figures.wasted),
    duration(figures.noticedS ?? 0),
    duration(recovered.recoveredP50S),
    duration(recovered.recoveredMostS),
    figures.peak.toFixed(2),
    figures.pending > 0 ? `${fixed(figures.lost)} (+${fixed(figures.pending)} open)` : fixed(figures.lost),
  ]);
  const head = [
    "",
    "policy",
    "deliveries",
    "wasted",
    "noticed",
    "recovered p50",
    "last",
    "peak ÷ capacity",
    "lost",
  ];
  return [`### ${title}`, says, alignedTable(head, rows)];
}
