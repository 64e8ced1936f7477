/** The dashboard and the alert rules use only metrics that /metrics has, and omit none that matters. */
import { readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import { exposition } from "./exposition.ts";
import {
  alertQueries,
  alertsThatName,
  askedBy,
  dashboardQueries,
  type Matcher,
  type Query,
} from "./queries.ts";

const exposed = exposition();
const queries = [...alertQueries(), ...dashboardQueries()];

describe.each(queries.map((query) => [query.of, query] as const))("%s", (_, query) => {
  const asked = askedBy(query);

  it("is valid PromQL", () => {
    expect([query.expr, asked.isSound, asked.selected.length > 0]).toEqual([query.expr, true, true]);
  });

  it("selects exposed series, by their labels and values", () => {
    expect(asked.selected.flatMap(({ metric, matchers }) => unknown(metric, matchers))).toEqual([]);
  });

  it("groups by labels that its series have", () => {
    const known = asked.selected.flatMap(({ metric }) => [...(exposed.get(metric)?.keys() ?? [])]);
    expect(asked.grouped.filter((label) => !known.includes(label))).toEqual([]);
  });
});

/** The parts of a selection that are not exposed. A variable of Grafana means any value. */
function unknown(metric: string, matchers: readonly Matcher[]): string[] {
  const labels = exposed.get(metric);
  if (labels === undefined) return [metric];
  return matchers.flatMap(({ label, value }) => {
    const values = labels.get(label);
    if (values === undefined) return [`${metric}{${label}}`];
    return value.startsWith("$") || values.has(value) ? [] : [`${metric}{${label}="${value}"}`];
  });
}

/** Each figure that operators judge deliveries by, and where it is exposed. */
const figures: readonly (readonly [figure: string, series: string])[] = [
  ["retry rate", "breakwater_retry_rate"],
  ["dead-letter rate", "breakwater_dead_letter_rate"],
  ["dead letters", "breakwater_dead_letters"],
  ["mean attempts to success", "breakwater_mean_attempts_to_success"],
  ["retrying for more than a day", "breakwater_retrying_for_a_day"],
  ["second-attempt success", "breakwater_second_attempt_success_rate"],
  ["latency, p50 and p95", "breakwater_latency_seconds"],
  ["non-2xx rate", "breakwater_non_2xx_rate"],
  ["timeout rate", "breakwater_timeout_rate"],
  ["attempt distribution", "breakwater_attempts_by_number_total"],
  ["dedupe hits", "breakwater_deduplicated_total"],
  ["requests that could be dedupe hits", "breakwater_keyed_requests_total"],
  ["queue delay", "breakwater_start_delay_seconds"],
  ["queue delay by destination", "breakwater_queue_delay_seconds_bucket"],
  ["waiting depth by destination", "breakwater_waiting_deliveries"],
  ["retry depth by destination", "breakwater_retrying_deliveries"],
  ["storm ratio", "breakwater_storm_ratio"],
];

test.each(figures)("the dashboard shows the %s", (_, series) => {
  expect(selectedBy(dashboardQueries())).toContain(series);
});

/** The value of each figure that raises an alert. */
const thresholds: readonly (readonly [alert: string, expr: string])[] = [
  ["BreakwaterRetryRateHigh", 'breakwater_retry_rate{window="1h"} > 0.1'],
  ["BreakwaterDeadLetterRateHigh", 'breakwater_dead_letter_rate{window="1h"} > 0.01'],
  ["BreakwaterTooManyAttempts", 'breakwater_mean_attempts_to_success{window="1h"} > 2'],
  ["BreakwaterRetryingForADay", "breakwater_retrying_for_a_day > 100"],
  ["BreakwaterSecondAttemptsFail", 'breakwater_second_attempt_success_rate{window="1h"} < 0.6'],
  ["BreakwaterDeliveredTooFew", '1 - breakwater_dead_letter_rate{window="24h"} < 0.995'],
  ["BreakwaterDeadLettersGrow", "increase(breakwater_dead_total[1h]) > "],
  ["BreakwaterRetryStorm", "breakwater_storm == 1"],
  ["BreakwaterBacklogDeep", "breakwater_retrying_deliveries + breakwater_waiting_deliveries > "],
];

test.each(thresholds)("%s is raised by %s", (alert, start) => {
  const expr = alertQueries().find(({ of }) => of === alert)?.expr ?? "no such alert";
  expect(expr.startsWith(start)).toBe(true);
});

test("every exposed series is used by an alert or the dashboard", () => {
  const looked = selectedBy(queries);
  const family = (series: string) => series.replace(/_(bucket|sum|count)$/, "");
  const unseen = [...exposed.keys()].filter(
    (series) => !looked.some((seen) => family(seen) === family(series)),
  );
  expect(unseen).toEqual([]);
});

const runbook = readFileSync(new URL("../../docs/operations.md", import.meta.url).pathname, "utf8");

test.each([...new Set(alertQueries().map(({ of }) => of))])("%s has a section in the runbook", (alert) => {
  expect(runbook).toContain(`\n#### ${alert}\n`);
});

function selectedBy(some: readonly Query[]): string[] {
  return some.flatMap((query) => askedBy(query).selected.map(({ metric }) => metric));
}

test.each([
  "BreakwaterRetryRateHigh",
  "BreakwaterDeadLetterRateHigh",
  "BreakwaterDeadLettersGrow",
  "BreakwaterDeliveredTooFew",
  "BreakwaterTooManyAttempts",
  "BreakwaterSecondAttemptsFail",
  "BreakwaterRetryingForADay",
  "BreakwaterStartsLate",
  "BreakwaterRetryStorm",
  "BreakwaterBacklogDeep",
  "BreakwaterBacklogGrows",
  "BreakwaterCircuitStaysOpen",
])("%s names the destinations concerned", (alert) => {
  expect(alertsThatName()).toContain(alert);
});
