/** How each peer stores an event with its job, and how its worker gets the jobs. */
import { type JobsOptions, Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import pg from "pg";
import { PgBoss } from "pg-boss";
import type { PeerArgs } from "./peers.ts";

export type Posted = Readonly<{ type: string; body: string }>;

/** One delivery for a worker. */
export type Job = Readonly<{
  id: string;
  type: string;
  body: string;
  record: (attempt: Readonly<{ at: number; status: number; latencyMs: number }>) => Promise<unknown>;
}>;

export type Jobs = Readonly<{
  /** Resolves when the events are stored and their jobs queued. */
  accept: (posted: readonly Posted[]) => Promise<readonly string[]>;
  /** Calls the function for each job, and again later if it rejects. */
  work: (deliver: (job: Job) => Promise<void>) => Promise<void>;
}>;

const QUEUE = "deliveries";
const CONCURRENCY = 100;
const MONTH_S = 30 * 24 * 3600;

const TABLES = `
  CREATE TABLE IF NOT EXISTS events (
    id bigserial PRIMARY KEY, type text NOT NULL, body text NOT NULL, accepted_at timestamptz DEFAULT now());
  CREATE TABLE IF NOT EXISTS deliveries (
    event_id bigint PRIMARY KEY, state text NOT NULL, attempts int NOT NULL, log jsonb NOT NULL)`;

const INSERT = `
  INSERT INTO events (type, body) SELECT type, body FROM json_to_recordset($1) AS e(type text, body text)
  RETURNING id, type`;

const RECORD = `
  INSERT INTO deliveries VALUES ($1, $2, 1, jsonb_build_array($3::jsonb))
  ON CONFLICT (event_id) DO UPDATE SET
    state = excluded.state, attempts = deliveries.attempts + 1, log = deliveries.log || excluded.log`;

export async function jobsOf([kind, redis, postgres]: PeerArgs): Promise<Jobs> {
  if (kind === "bullmq") return inRedis(redis);
  const pool = new pg.Pool({ connectionString: postgres, max: 20 });
  await pool.query(TABLES);
  return kind === "pg-boss" ? inPostgres(pool, postgres) : inBoth(pool, redis);
}

const jobOptions: JobsOptions = {
  attempts: 16,
  backoff: { type: "exponential", delay: 30_000, jitter: 0.5 },
  removeOnComplete: { age: MONTH_S },
};

/** Stores everything in the job: the payload in its data, attempts in its log. */
function inRedis(url: string): Jobs {
  const queue = new Queue<Posted>(QUEUE, { connection: connectionTo(url) });
  return {
    accept: async (posted) => {
      const jobs = await queue.addBulk(posted.map((data) => ({ name: data.type, data, opts: jobOptions })));
      return jobs.map(({ id }) => String(id));
    },
    work: async (deliver) => {
      const options = { connection: connectionTo(url), concurrency: CONCURRENCY };
      const worker = new Worker<Posted>(
        QUEUE,
        ({ id = "", data }) => {
          const record: Job["record"] = (attempt) => queue.addJobLog(id, JSON.stringify(attempt));
          return deliver({ id, ...data, record });
        },
        options,
      );
      await worker.waitUntilReady();
    },
  };
}

/** Stores events and attempts in Postgres; a job holds the id of its event. */
function inBoth(pool: pg.Pool, url: string): Jobs {
  const queue = new Queue<{ id: string }>(QUEUE, { connection: connectionTo(url) });
  return {
    accept: async (posted) => {
      const { rows } = await pool.query<{ id: string; type: string }>(INSERT, [JSON.stringify(posted)]);
      await queue.addBulk(rows.map(({ id, type }) => ({ name: type, data: { id }, opts: jobOptions })));
      return rows.map(({ id }) => id);
    },
    work: async (deliver) => {
      const options = { connection: connectionTo(url), concurrency: CONCURRENCY };
      const worker = new Worker<{ id: string }>(
        QUEUE,
        async ({ data: { id } }) => deliver(await loaded(pool, id)),
        options,
      );
      await worker.waitUntilReady();
    },
  };
}

/** Commits event and job together; NOTIFY wakes the workers. */
async function inPostgres(pool: pg.Pool, connectionString: string): Promise<Jobs> {
  const boss = new PgBoss({ connectionString, useListenNotify: true });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  await boss.createQueue(QUEUE, { retryLimit: 15, retryDelay: 30, retryBackoff: true, notify: true });
  return {
    accept: async (posted) => {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        const { rows } = await client.query<{ id: string }>(INSERT, [JSON.stringify(posted)]);
        const db = { executeSql: (text: string, values?: unknown[]) => client.query(text, values) };
        await boss.insert(
          QUEUE,
          rows.map(({ id }) => ({ data: { id } })),
          { db },
        );
        await client.query("COMMIT");
        return rows.map(({ id }) => id);
      } finally {
        client.release();
      }
    },
    work: async (deliver) => {
      await boss.work<{ id: string }, unknown>(
        QUEUE,
        {
          batchSize: CONCURRENCY,
          pollingIntervalSeconds: 0.5,
          notifyPollingIntervalSeconds: 0.5,
          burstWhenBatchFull: true,
          perJobResults: true,
          localConcurrency: 2,
        } as const,
        (jobs) =>
          Promise.all(
            jobs.map(async (job) => {
              try {
                await deliver(await loaded(pool, job.data.id));
                return { id: job.id, status: "completed" as const };
              } catch (error) {
                return { id: job.id, status: "failed" as const, output: { error: String(error) } };
              }
            }),
          ),
      );
    },
  };
}

async function loaded(pool: pg.Pool, id: string): Promise<Job> {
  const { rows } = await pool.query<Posted>({
    name: "load",
    text: "SELECT type, body FROM events WHERE id = $1",
    values: [id],
  });
  const [event] = rows;
  if (!event) throw new Error(`There is no event ${id}`);
  const record: Job["record"] = (attempt) => {
    const state = attempt.status < 300 ? "delivered" : "retrying";
    return pool.query({ name: "record", text: RECORD, values: [id, state, JSON.stringify(attempt)] });
  };
  return { id, ...event, record };
}

function connectionTo(url: string): Redis {
  return new Redis(url, { maxRetriesPerRequest: null });
}
