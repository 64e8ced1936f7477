/** The comparisons of the checks: statistics, and observations against expectations. Pure: hits and times are arguments. */
import type { EndpointHit } from "./protocol.ts";

/** The observation in words, and whether it is as expected. */
export type CheckResult = Readonly<{ ok: boolean; seen: string }>;

/** The smallest value that at least this share (0 to 1) of the values does not exceed; NaN without values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

export type Bounds = Readonly<{ p50Ms: number; p99Ms: number }>;

export function judgeLatency(what: string, values: readonly number[], bounds: Bounds): CheckResult {
  const [p50, p99] = [percentile(values, 0.5), percentile(values, 0.99)];
  const seen = values.length === 0 ? `${what}: none` : `${what} p50 ${msText(p50)}, p99 ${msText(p99)}`;
  return { ok: p50 <= bounds.p50Ms && p99 <= bounds.p99Ms, seen };
}

/** Milliseconds below ten seconds, seconds beyond. */
export function msText(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : secondsText(ms);
}

export function secondsText(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

export function joinResults(...results: readonly CheckResult[]): CheckResult {
  return { ok: results.every(({ ok }) => ok), seen: results.map(({ seen }) => seen).join("; ") };
}

/** How often each event has arrived successfully. */
export type Arrivals = Readonly<{ arrived: number; lost: number; duplicates: number }>;

/** @param events the ids of the accepted events */
export function arrivalsOf(events: readonly string[], hits: readonly EndpointHit[]): Arrivals {
  const successes = hits.filter(({ status }) => wasSuccessful(status));
  const distinct = new Set(successes.map(({ event }) => event));
  const arrived = events.filter((event) => distinct.has(event)).length;
  return { arrived, lost: events.length - arrived, duplicates: successes.length - distinct.size };
}

/** Checks that every event arrived once, and nothing else did. */
export function judgeOnce(events: readonly string[], hits: readonly EndpointHit[]): CheckResult {
  const { arrived, lost, duplicates } = arrivalsOf(events, hits);
  const expected = new Set(events);
  const foreign = hits.filter(({ event }) => !expected.has(event)).length;
  const seen = `${arrived} of ${events.length} arrived, ${duplicates} twice${foreign > 0 ? `, ${foreign} unknown` : ""}`;
  return { ok: lost === 0 && duplicates === 0 && foreign === 0, seen };
}

/**
 * Checks that each event was attempted twice, with the same bytes, and that the time from the answer to the first
 * attempt until the second is within the range.
 */
export function judgeRetries(
  events: readonly string[],
  hits: readonly EndpointHit[],
  { fromMs, toMs }: Readonly<{ fromMs: number; toMs: number }>,
): CheckResult {
  const byEvent = Map.groupBy(hits, ({ event }) => event);
  const pairs = events.map((event) => byEvent.get(event) ?? []);
  const waits = pairs.flatMap(([first, second]) =>
    second === undefined || first === undefined ? [] : [second.at - (first.answeredAt ?? first.at)],
  );
  const sameBytes = pairs.every(([first, second]) => second === undefined || first?.body === second.body);
  const numbers = pairs.map((pair) => pair.map(({ attempt }) => attempt).join(", "));
  const misnumbered = numbers.find((each) => each !== "1, 2");
  const isRight =
    waits.length === events.length &&
    misnumbered === undefined &&
    waits.every((wait) => wait >= fromMs && wait <= toMs);
  const shown =
    waits.length === 0 ? "none" : `after ${waits.map((wait) => (wait / 1000).toFixed(1)).join(", ")} s`;
  return {
    ok: isRight && sameBytes,
    seen: [
      `${hits.length} attempts of ${events.length} events`,
      `second ${shown}`,
      ...(sameBytes ? [] : ["with other bytes"]),
      ...(misnumbered === undefined ? [] : [`those of one event numbered ${misnumbered || "not at all"}`]),
    ].join(", "),
  };
}

/** How long after the receiver has requested a hold, requests that were about to start may still arrive. */
const HOLD_TAKES_EFFECT_MS = 1_000;

/** Checks that nothing arrived during the hold that the first answer requested, and everything after it. */
export function judgeHold(
  events: readonly string[],
  hits: readonly EndpointHit[],
  { holdMs, withinMs }: Readonly<{ holdMs: number; withinMs: number }>,
): CheckResult {
  const from = hits[0]?.answeredAt;
  if (from === undefined || from === null) return { ok: false, seen: "no first attempt" };
  const later = hits.slice(1);
  const during = later.filter(({ at }) => at > from + HOLD_TAKES_EFFECT_MS && at < from + holdMs);
  const first = Math.min(...later.filter((hit) => !during.includes(hit)).map(({ at }) => at));
  const { lost } = arrivalsOf(events, hits);
  const shown = Number.isFinite(first) ? `the next after ${secondsText(first - from)}` : "none after it";
  return {
    ok: during.length === 0 && lost === 0 && first - from <= holdMs + withinMs,
    seen: `${during.length} during the hold, ${shown}, ${events.length - lost} of ${events.length} arrived`,
  };
}

export type Opening = Readonly<{ openedAt: number; closedAt: number; cooldownMs: number }>;

/** How long after the circuit opened, requests that were admitted before may still arrive. */
const OPENING_TAKES_EFFECT_MS = 2_500;

/** Attempts that failed while the circuit was open. */
export function failedProbes(hits: readonly EndpointHit[], openedAt: number): readonly EndpointHit[] {
  return hits.filter(({ at, status }) => at >= openedAt + OPENING_TAKES_EFFECT_MS && !wasSuccessful(status));
}

/** Checks that at most one probe came for each cool-down while the circuit was open, and at least one in all. */
export function judgeProbes(hits: readonly EndpointHit[], { openedAt, closedAt, cooldownMs }: Opening) {
  const before = hits.filter(({ at }) => at < openedAt + OPENING_TAKES_EFFECT_MS).length;
  const failed = failedProbes(hits, openedAt).filter(({ at }) => at <= closedAt);
  const gaps = failed.slice(1).map(({ at }, i) => at - (failed[i]?.at ?? 0));
  const openMs = closedAt - openedAt;
  const tooEarly = gaps.filter((gap) => gap < cooldownMs * 0.9).length;
  const most = Math.floor(openMs / cooldownMs);
  return {
    ok: failed.length >= 1 && tooEarly === 0 && failed.length <= most,
    seen: `opened after ${before} attempts, for ${secondsText(openMs)}; probes that failed: ${failed.length}`,
  };
}

export function wasSuccessful(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}

/** Checks that there were never more than `max` requests at once, by the receiver's count, and once more than one. */
export function judgeConcurrency(hits: readonly EndpointHit[], max: number): CheckResult {
  const most = Math.max(0, ...hits.map(({ inFlight }) => inFlight));
  return { ok: most > 1 && most <= max, seen: `${most} at once at most` };
}

/** @param heartbeats epoch ms, in the order in which they were read */
export function judgeHeartbeat(heartbeats: readonly (number | null)[], ageSeconds: number | undefined) {
  const known = new Set(heartbeats.filter((at) => at !== null));
  const age = ageSeconds === undefined ? "never" : `${ageSeconds} s ago`;
  return {
    ok: known.size > 1 && ageSeconds !== undefined && ageSeconds <= 120,
    seen: known.size > 1 ? `it beat again, ${age}` : `last ${age}, and not again`,
  };
}

type MigratedDatabases = readonly Readonly<{ name: string; migration?: string | null }>[];

/** Checks that every database has the migration that the code was written for. Later migrations exist after a rollback. */
export function judgeMigrations(expected: string | undefined, databases: MigratedDatabases): CheckResult {
  if (expected === undefined || databases.length === 0)
    return { ok: false, seen: "the deployment does not say" };
  const seen = databases.map(({ name, migration }) => `${name} ${migration ?? "unknown"}`).join(", ");
  const ok = databases.every(({ migration }) => typeof migration === "string" && migration >= expected);
  return { ok, seen: `the code expects ${expected}; ${seen}` };
}

export type Billed = Readonly<{ rowsWritten: number; rowsRead: number; queueOperations: number }>;

/** The units that deliveries in full batches may use for each, as in the cost bench's ledger. */
export const LEDGER: Billed = { rowsWritten: 0.05, rowsRead: 1, queueOperations: 0.035 };

/** The units that a minute takes by itself, with those of the destination and its first batch. */
const PER_MINUTE: Billed = { rowsWritten: 4, rowsRead: 150, queueOperations: 6 };

export function judgeBilled(used: Billed, deliveries: number, minutes: number): CheckResult {
  const parts = (["rowsWritten", "rowsRead", "queueOperations"] as const).map((unit) => {
    const most = LEDGER[unit] * deliveries + PER_MINUTE[unit] * minutes;
    return {
      ok: used[unit] > 0 && used[unit] <= most,
      seen: `${used[unit]} of ${Math.round(most)} ${names[unit]}`,
    };
  });
  return joinResults(...parts);
}

const names: Readonly<Record<keyof Billed, string>> = {
  rowsWritten: "rows written",
  rowsRead: "rows read",
  queueOperations: "queue operations",
};
