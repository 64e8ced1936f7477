/**
 * The stack that people usually write themselves: an HTTP server, a job queue and a worker. It is as plain as possible,
 * but has Breakwater's duties: the payload is stored before the answer, every attempt is signed and logged, failures
 * are retried with backoff, and the requests in flight to an endpoint are limited.
 */
import { versionOf } from "./breakwater.ts";
import { type Contender, KEY } from "./contender.ts";
import { type Database, postgresBin, redisServer, startPostgres, startRedis } from "./databases.ts";
import { startChild } from "./processes.ts";

export type Kind = "bullmq" | "bullmq-postgres" | "pg-boss";

/** The arguments of the child processes. */
export type PeerArgs = [kind: Kind, redis: string, postgres: string, endpoints: readonly string[]];

const needs = {
  bullmq: ["redis"],
  "bullmq-postgres": ["redis", "postgres"],
  "pg-boss": ["postgres"],
} as const;

function peer(kind: Kind, name: string, settings: string): Contender {
  const wants = (what: "redis" | "postgres") => (needs[kind] as readonly string[]).includes(what);
  return {
    name,
    settings,
    missing: () => {
      if (wants("redis") && !redisServer()) return "redis-server is not installed";
      if (wants("postgres") && !postgresBin()) return "Postgres is not installed";
      return undefined;
    },
    start: async (endpoints) => {
      const redis = wants("redis") ? await startRedis() : undefined;
      const postgres = wants("postgres") ? await startPostgres() : undefined;
      const databases = [redis, postgres].filter((db): db is Database => db !== undefined);
      const args: PeerArgs = [kind, redis?.url ?? "", postgres?.url ?? "", endpoints];
      const [url, api] = await startChild<string>("./peer-api.ts", args);
      const [, worker] = await startChild("./peer-worker.ts", args);
      return {
        url,
        headers: { authorization: `Bearer ${KEY}` },
        pids: [api.pid, worker.pid, ...databases.map(({ pid }) => pid)],
        stop: async () => {
          await Promise.all([api.stop(), worker.stop()]);
          await Promise.all(databases.map((database) => database.stop()));
        },
      };
    },
  };
}

const bullmq = `BullMQ ${versionOf("bullmq")}, concurrency 100, Redis with an append-only file flushed every second`;

export const bullmqAlone = peer("bullmq", "BullMQ + Redis", `${bullmq}; payload and log in the job`);

export const peers: readonly Contender[] = [
  bullmqAlone,
  peer("bullmq-postgres", "BullMQ + Redis + Postgres", `${bullmq}; payload and log in Postgres`),
  peer(
    "pg-boss",
    "pg-boss + Postgres",
    `pg-boss ${versionOf("pg-boss")}, event and job in one transaction, batches of 100, LISTEN/NOTIFY`,
  ),
];
