/** Measures one contender under one load, once: its times, and what it used. */
import type { Running } from "./contender.ts";
import type { Endpoints } from "./endpoints.ts";
import { post, type Shape } from "./load.ts";
import { cpuSeconds, megabytes } from "./processes.ts";

export type Figures = Readonly<{
  acceptedPerSecond: number;
  ingestP50Ms: number;
  ingestP99Ms: number;
  deliveredP50Ms: number;
  deliveredP99Ms: number;
  deliveredPerSecond: number;
  /** Undefined if the processes that do the work are not known. */
  cpuSecondsPer1000: number | undefined;
  megabytes: number | undefined;
}>;

const PATIENCE_MS = 120_000;

export async function measure(running: Running, endpoints: Endpoints, shape: Shape): Promise<Figures> {
  endpoints.forget();
  const cpuBefore = cpuSeconds(running.pids);
  const startedAt = performance.now();
  const { latencies, acceptedAt } = await post(running, shape, endpoints.urls.length);
  await endpoints.arrived(shape.events, PATIENCE_MS);
  const arrivedAt = [...endpoints.arrivals.values()].reduce((last, at) => Math.max(last, at), 0);
  const acceptedLast = [...acceptedAt.values()].reduce((last, at) => Math.max(last, at), 0);
  const isKnown = running.pids.length > 0;
  const delays = delaysOf(endpoints.arrivals, acceptedAt);
  return {
    acceptedPerSecond: (shape.events * 1000) / (acceptedLast - startedAt),
    ingestP50Ms: quantile(latencies, 0.5),
    ingestP99Ms: quantile(latencies, 0.99),
    deliveredP50Ms: quantile(delays, 0.5),
    deliveredP99Ms: quantile(delays, 0.99),
    deliveredPerSecond: (shape.events * 1000) / (arrivedAt - startedAt),
    cpuSecondsPer1000: isKnown ? ((cpuSeconds(running.pids) - cpuBefore) * 1000) / shape.events : undefined,
    megabytes: isKnown ? megabytes(running.pids) : undefined,
  };
}

/** Times from answer to arrival in ms; zero for events that arrived before the answer. */
export function delaysOf(
  arrivals: ReadonlyMap<number, number>,
  acceptedAt: ReadonlyMap<number, number>,
): number[] {
  return [...arrivals].map(([number, at]) => Math.max(0, at - (acceptedAt.get(number) ?? at)));
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}
