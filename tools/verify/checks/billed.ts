/**
 * Compares what Cloudflare has counted for a run of batches with the ledger of the cost bench. The counts of D1 and
 * Queues are in Cloudflare's GraphQL API, by the minute and some minutes late; the deployment itself cannot know all of
 * them, because its own count would leave out what the platform bills beside it. They are the account's: other traffic
 * in these minutes counts too.
 */
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { projectRoot, readEnvironments } from "../../wrangler.ts";
import { type Account, accountOf, callAccount } from "../account.ts";
import { arrived, type Check, type Run, type Skipped } from "../check.ts";
import { type Billed, judgeBilled } from "../judge.ts";
import { errorMessage } from "../receiver.ts";

const BATCHES = 20;
const BATCH = 100;
const MINUTE_MS = 60_000;
/** How late the counts may be. */
const COUNTED_MS = 6 * MINUTE_MS;
const POLL_MS = 20_000;

export const billed: Check = {
  name: "billed",
  expected: "rows and queue operations of batches of 100 within the ledger of the cost bench",
  runsAlone: true,
  usesReceiver: true,
  run: async (run) => {
    const account = accountOf(run, "npm run bench:cost counts there", "may read analytics, D1 and Queues");
    if ("skipped" in account) return account;
    const resources = await resourcesOf(account, run).catch((error: unknown) => ({
      skipped: `Cloudflare's API: ${errorMessage(error)}`,
    }));
    if ("skipped" in resources) return resources;
    const target = await run.target("billed", { max_concurrency: 100, rate_per_second: 10_000 });
    // Waits for a full minute, so that the counted minutes belong to this check alone.
    await run.wait(MINUTE_MS - (Date.now() % MINUTE_MS));
    const from = Date.now();
    const data = Array.from({ length: BATCH }, (_, n) => ({ n, text: "x".repeat(500) }));
    for (let n = 0; n < BATCHES; n++) await run.deployment.post(target.type, data, run.unique(`billed-${n}`));
    await run.hitsOnce(target, arrived(BATCHES * BATCH), 120_000);
    await run.wait(MINUTE_MS - (Date.now() % MINUTE_MS));
    const minutes = Math.round((Date.now() - from) / MINUTE_MS);
    run.note(`billed: waiting for the counts of ${minutes} minutes`);
    let used: Billed = { rowsWritten: 0, rowsRead: 0, queueOperations: 0 };
    const isCounted = async () => {
      const before = used;
      used = await countsOf(account, resources, from, minutes);
      const { rowsWritten, queueOperations } = used;
      const isSame = rowsWritten === before.rowsWritten && queueOperations === before.queueOperations;
      return rowsWritten > 0 && queueOperations > 0 && isSame;
    };
    if (!(await run.until(isCounted, COUNTED_MS, POLL_MS)))
      return { skipped: `Cloudflare has not counted these minutes after ${COUNTED_MS / MINUTE_MS} more` };
    return judgeBilled(used, BATCHES * BATCH, minutes);
  },
};

type Resources = Readonly<{ databases: readonly string[]; queues: readonly string[] }>;

/** The ids of the deployment's databases and queues, by their names in its configuration. */
async function resourcesOf(account: Account, { options }: Run): Promise<Resources | Skipped> {
  const all = await readEnvironments(resolve(projectRoot, options.config));
  const target = all.find(({ name }) => (name ?? "") === options.environment);
  if (target === undefined) return { skipped: `${options.config} has no environment ${options.environment}` };
  const { d1_databases, queues } = target.config;
  const databases = await Promise.all(
    d1_databases.map(async ({ database_id, database_name = "" }) => {
      if (database_id !== undefined) return database_id;
      const found = await callAccount<Readonly<{ name: string; uuid: string }>[]>(
        account,
        `/d1/database?name=${database_name}`,
      );
      return found.find(({ name }) => name === database_name)?.uuid;
    }),
  );
  const names = (queues.producers ?? []).map(({ queue }) => queue);
  const found = await callAccount<Readonly<{ queue_name: string; queue_id: string }>[]>(
    account,
    "/queues?per_page=100",
  );
  const ids = names.map((name) => found.find(({ queue_name }) => queue_name === name)?.queue_id);
  const missing = databases.includes(undefined) || ids.includes(undefined);
  if (missing) return { skipped: `not all databases and queues of ${options.config} are in the account` };
  return { databases: databases.flatMap((id) => id ?? []), queues: ids.flatMap((id) => id ?? []) };
}

const QUERY = `query Billed($account: string!, $databases: [string!], $queues: [string!], $from: Time!, $to: Time!) {
  viewer {
    accounts(filter: { accountTag: $account }) {
      d1AnalyticsAdaptiveGroups(
        limit: 1000
        filter: { databaseId_in: $databases, datetimeMinute_geq: $from, datetimeMinute_lt: $to }
      ) { sum { rowsRead rowsWritten } }
      queueMessageOperationsAdaptiveGroups(
        limit: 1000
        filter: { queueId_in: $queues, datetimeMinute_geq: $from, datetimeMinute_lt: $to }
      ) { sum { billableOperations } }
    }
  }
}`;

type Counts = Readonly<{
  data: Readonly<{
    viewer: Readonly<{
      accounts: readonly Readonly<{
        d1AnalyticsAdaptiveGroups: readonly Readonly<{
          sum: Readonly<{ rowsRead: number; rowsWritten: number }>;
        }>[];
        queueMessageOperationsAdaptiveGroups: readonly Readonly<{
          sum: Readonly<{ billableOperations: number }>;
        }>[];
      }>[];
    }>;
  }> | null;
  errors?: readonly Readonly<{ message: string }>[] | null;
}>;

const TRIES = 3;

async function countsOf(
  { api, id, token }: Account,
  { databases, queues }: Resources,
  fromAt: number,
  minutes: number,
): Promise<Billed> {
  const [from, to] = [fromAt, fromAt + minutes * MINUTE_MS].map((at) => new Date(at).toISOString());
  const body = JSON.stringify({ query: QUERY, variables: { account: id, databases, queues, from, to } });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(`${api}/graphql`, { method: "POST", headers, body });
    const { data, errors } = (await response.json()) as Counts;
    const [account] = data?.viewer.accounts ?? [];
    if (account !== undefined && !errors?.length) {
      const d1 = account.d1AnalyticsAdaptiveGroups.map(({ sum }) => sum);
      const queue = account.queueMessageOperationsAdaptiveGroups.map(({ sum }) => sum);
      return {
        rowsRead: d1.reduce((sum, { rowsRead }) => sum + rowsRead, 0),
        rowsWritten: d1.reduce((sum, { rowsWritten }) => sum + rowsWritten, 0),
        queueOperations: queue.reduce((sum, { billableOperations }) => sum + billableOperations, 0),
      };
    }
    if (attempt === TRIES)
      throw new Error(
        `Cloudflare's analytics: ${response.status} ${errors?.[0]?.message ?? "without an account"}`,
      );
    await sleep(POLL_MS);
  }
}
