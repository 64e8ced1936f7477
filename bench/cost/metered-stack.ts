/** A local stack with receivers and meters, for one run. */

import { until } from "../../test/scenario/until.ts";
import { type ReceiverServer, type Reply, startReceiver } from "../../tools/receiver.ts";
import { type ApiClient, apiClient } from "../../tools/stack.ts";
import { KEY, type Running, typeOf } from "../throughput/contender.ts";
import { cpuSeconds, startChild } from "../throughput/processes.ts";
import { type Units, usedBetween } from "./units.ts";

export type MeteredStack = Readonly<{
  running: Running;
  api: ApiClient;
  receiver: ReceiverServer;
  /** Sets how the receivers answer from now on, by the number of the event and whether it is a repeat. */
  answering: (reply: (event: number, again: boolean) => Reply) => void;
  /**
   * Creates destinations and returns their ids: in the default tenant, for event types `bench.0`, `bench.1` and so on
   * or all for the same type, or each in its own tenant.
   */
  destinations: (
    count: number,
    whose?: "each its type" | "same type" | "tenants",
  ) => Promise<readonly string[]>;
  /** Resolves when this many more deliveries have succeeded and no message is in flight. */
  delivered: (deliveries: number) => Promise<void>;
  /** Runs a statement without metering it, and returns the rows. */
  sql: (sql: string, ...values: (string | number)[]) => Promise<readonly Record<string, unknown>[]>;
  /** The bytes that D1 would bill as stored. */
  bytes: () => Promise<number>;
  /** Resolves when no message is in flight. */
  quiet: () => Promise<void>;
  /** Runs the cron. */
  tick: () => Promise<void>;
  /** Reads the meters; the function that it resolves with reads them again, and returns the usage in between. */
  metered: () => Promise<() => Promise<Readonly<{ units: Units; cpuMs: number }>>>;
  close: () => Promise<void>;
}>;

const ENTRY = "bench/cost/worker/metered-worker.ts";
/** Limits that stop nothing, so that the figures are those of the path. */
const WIDE = { max_concurrency: 100, rate_per_second: 10_000, rate_burst: 10_000, retry: { schedule: [1] } };

/** The tenant of the nth destination, if each has its own. */
export function tenantOf(n: number): string {
  return `tenant-${n}`;
}

/** @param latency whether calls take as long as in production */
export async function startMeteredStack({ latency = false } = {}): Promise<MeteredStack> {
  let answer: (event: number, again: boolean) => Reply = () => ({ status: 204 });
  const seen = new Set<string>();
  let successes = 0;
  let expected = 0;
  const receiver = await startReceiver(({ path, id, body }) => {
    const key = `${path} ${id}`;
    const reply = answer(Number(/"number":(\d+)/.exec(body)?.[1]), seen.has(key));
    seen.add(key);
    if (reply.status < 300) successes += 1;
    return reply;
  });
  const [url, host] = await startChild<string>("./breakwater-host.ts", [
    ENTRY,
    latency ? { BENCH_LATENCY: "1" } : {},
  ]);
  const headers = { authorization: `Bearer ${KEY}` };
  const api = apiClient(url, KEY);
  const units = async (): Promise<Units> => (await fetch(`${url}/units`)).json() as Promise<Units>;
  const isQuiet = async () => {
    const { queueWritten, queueDeleted } = await units();
    return queueWritten === queueDeleted;
  };
  return {
    running: { url, headers, pids: [host.pid], stop: host.stop },
    api,
    receiver,
    answering: (reply) => {
      answer = reply;
    },
    destinations: async (count, whose = "each its type") => {
      const ids: string[] = [];
      for (let i = 0; i < count; i++) {
        const wanted = {
          url: `${receiver.url}/${i}`,
          event_types: [typeOf(whose === "each its type" ? i : 0)],
          ...(whose === "tenants" && { tenant: tenantOf(i) }),
          ...WIDE,
        };
        ids.push((await api.post<{ id: string }>("/v1/destinations", wanted)).id);
      }
      return ids;
    },
    delivered: (deliveries) => {
      expected += deliveries;
      return until(async () => successes >= expected && (await isQuiet()), {
        everyMs: 200,
        otherwise: () => `${successes} of ${expected} delivered`,
      });
    },
    sql: async (sql, ...values) => {
      const response = await fetch(`${url}/sql`, { method: "POST", body: JSON.stringify({ sql, values }) });
      if (!response.ok) throw new Error(`${sql}: ${await response.text()}`);
      return response.json() as Promise<Record<string, unknown>[]>;
    },
    bytes: async () => (await fetch(`${url}/bytes`)).json() as Promise<number>,
    quiet: () => until(isQuiet, { everyMs: 100, otherwise: () => "messages are left" }),
    tick: async () => {
      await (await fetch(`${url}/tick`, { method: "POST" })).text();
    },
    metered: async () => {
      const [before, cpu] = [await units(), cpuSeconds([host.pid])];
      return async () => ({
        units: usedBetween(before, await units()),
        cpuMs: (cpuSeconds([host.pid]) - cpu) * 1000,
      });
    },
    close: async () => {
      await host.stop();
      receiver.close();
    },
  };
}
