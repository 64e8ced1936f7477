/**
 * What the default policy is chosen by: outages of days with little traffic, its jitter, and statuses of a server
 * that is there and refuses. Everything runs behind the gate, as a destination's own policy does.
 */

import type { RetrySpec } from "../../src/core/retry/policy.ts";
import { presets } from "../../src/core/retry/presets.ts";
import { type Figures, type Simulated, simulationFiguresOf } from "../../src/simulator/figures.ts";
import { recoveryOf } from "../../src/simulator/scenario.ts";
import { breakwater } from "./breakwater/sender.ts";
import { erratic, outageOfAnHour, quiet, refused, type Scenario, WEEKENDS, weekend } from "./scenarios.ts";
import { simulate } from "./simulate.ts";
import { alignedTable, duration, grouped } from "./table.ts";

type Variant = Readonly<{ name: string; retry: RetrySpec }>;

type Outcome = Readonly<{
  scenario: string;
  variant: string;
  figures: Figures;
  deliveries: number;
  /** Of what was there when the receiver recovered: from the recovery to the delivery, seconds. */
  recoveredP50S: number;
  recoveredMostS: number;
}>;

/** A part of the report: what is compared, and the figures of it. */
export type PolicyFigures = Readonly<{ title: string; says: string; outcomes: readonly Outcome[] }>;

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
    // Longer than the age limit: for ever, as far as these deliveries are concerned.
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
    title: "A server that is there and refuses",
    says: "60 an hour for as long as it lasts, a day at most. Whoever refuses more than a hundred deliveries for good is paused: what was posted from then on waits for a person and is open here.",
    runs: refusals(423),
  },
  {
    title: "A busy weekend",
    says: "As above, with an event a second.",
    runs: [WEEKENDS.two, WEEKENDS.three].map((lastMs) => [weekend(lastMs, 3_600), [DEFAULT]] as const),
  },
];

/** Part by part, the longest last. */
export async function* policyFigures(
  seed: number,
  progress: (name: string) => void = () => undefined,
): AsyncGenerator<PolicyFigures> {
  for (const { title, says, runs } of parts) {
    const outcomes: Outcome[] = [];
    for (const [scenario, variants] of runs) {
      for (const variant of variants) {
        progress(`${scenario.title}: ${variant.name}`);
        outcomes.push(await outcomeOf(scenario, variant, seed));
      }
    }
    yield { title, says, outcomes };
  }
}

async function outcomeOf(scenario: Scenario, { name, retry }: Variant, seed: number): Promise<Outcome> {
  const simulated = await simulate(scenario, contenderWith(name, retry), seed);
  const figures = simulationFiguresOf(simulated);
  const deliveries = simulated.ledger.deliveries.length;
  return { scenario: scenario.title, variant: name, figures, deliveries, ...recoveredIn(simulated) };
}

function contenderWith(name: string, retry: RetrySpec): Parameters<typeof simulate>[1] {
  return {
    name,
    model: false,
    start: (context) =>
      breakwater({ ...context, settings: { ...context.settings, retry: JSON.stringify(retry) } }),
  };
}

function recoveredIn({ scenario, ledger }: Simulated) {
  const at = recoveryOf(scenario);
  const waited = ledger.deliveries
    .filter(({ acceptedAt, endedAt, dead }) => acceptedAt < at && endedAt >= at && !dead)
    .map(({ endedAt }) => (endedAt - at) / 1000)
    .sort((a, b) => a - b);
  const middle = waited[Math.floor(waited.length / 2)] ?? 0;
  return { recoveredP50S: middle, recoveredMostS: waited.at(-1) ?? 0 };
}

export function policySection({ title, says, outcomes }: PolicyFigures): string[] {
  const rows = outcomes.map(({ scenario, variant, deliveries, figures, ...recovered }) => [
    scenario,
    variant,
    grouped(deliveries),
    grouped(figures.wasted),
    duration(figures.noticedS ?? 0),
    duration(recovered.recoveredP50S),
    duration(recovered.recoveredMostS),
    figures.peak.toFixed(2),
    figures.pending > 0
      ? `${grouped(figures.lost)} (+${grouped(figures.pending)} open)`
      : grouped(figures.lost),
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
