/**
 * The cost of infrequent deliveries: production code in virtual time, over D1 of the local runtime, whose meters count
 * rows as they are billed. Each message is consumed at once, as by production's many consumers; gates are dropped from
 * memory after ten idle seconds; events that come during a commit share the next one.
 */

import type { Goal, Used } from "../cost/budget.ts";
import { resultOf } from "../cost/report.ts";
import { noUnits, type Units } from "../cost/units.ts";
import { type CostEntry, saved } from "../results.ts";
import { type Deployment, deployment } from "./deployment.ts";

type Sparse = Readonly<{
  id: string;
  name: string;
  tenants: number;
  /** Time between two events of a tenant. */
  gapMs: number;
  /** The number of gaps that are counted. */
  gaps: number;
  keyed?: true;
  goal?: Goal;
}>;

const SECOND = 1_000;

export const SPARSE: readonly Sparse[] = [
  {
    id: "cold",
    name: "alone, the gate cold",
    tenants: 1,
    gapMs: 60 * SECOND,
    gaps: 100,
    goal: { dollars: 7.5 },
  },
  {
    id: "keyed",
    name: "alone, the gate cold, with a key",
    tenants: 1,
    gapMs: 60 * SECOND,
    gaps: 100,
    keyed: true,
  },
  tenantsEvery(4, 15, 3.5),
  tenantsEvery(60, 2, 6.7),
  tenantsEvery(600, 1),
];

function tenantsEvery(seconds: number, gaps: number, dollars?: number): Sparse {
  return {
    id: `every-${seconds}`,
    name: `1,000 tenants, an event each every ${seconds} s`,
    tenants: 1_000,
    gapMs: seconds * SECOND,
    gaps,
    ...(dollars !== undefined && { goal: { dollars } }),
  };
}

/** How long a commit takes, and how long it occupies its intake, the send to the queue included. */
const COMMIT_MS = 40;
const INTAKE_MS = 60;
/** How long a call occupies a gate. */
const GATE_MS = 2;
/** Uncounted time at first: after the first contact and a slack, gates and caches are in their steady state. */
const BEFORE_MS = 32 * SECOND;

export async function sparseEntry(run: Sparse): Promise<CostEntry> {
  const { tenants } = run;
  const size = { isolates: 10, tenants, keys: 10, destinations: tenants, databases: 1, shards: 1 };
  const world = await deployment(size);
  try {
    await pass(world, run, Math.ceil(BEFORE_MS / run.gapMs));
    const before = await stored(world);
    reset(world);
    const { delivered, commits } = await pass(world, run, run.gaps);
    const used = usedBy(world, delivered, commits);
    const after = await stored(world);
    // Retention deletes every stored row, which writes one row each.
    const afterwards = { units: { ...noUnits(), d1RowsWritten: after.rows - before.rows }, cpuMs: 0 };
    const { id, name, goal } = run;
    const bytes = after.bytes - before.bytes;
    return resultOf({ id, name, delivered, delivering: used, afterwards, bytes, ...(goal && { goal }) });
  } finally {
    await world.close();
  }
}

/** Posts each tenant's events a gap apart, up to a tenth of it earlier or later. */
async function pass(world: Deployment, { tenants, gapMs, keyed }: Sparse, gaps: number) {
  const from = world.now();
  const times = Array.from({ length: tenants }, (_, tenant) => {
    const phase = world.random();
    return Array.from({ length: gaps }, (_, gap) => ({
      at: from + (gap + phase + (world.random() - 0.5) / 5) * gapMs,
      tenant: `tenant-${tenant}`,
    }));
  });
  const commits = commitsOf(times.flat());
  for (const { at, posts } of commits) {
    await world.advance(Math.max(0, at - world.now()));
    world.gather(posts.length);
    await Promise.all(posts.map((post) => world.post([post.tenant], keyed && `key-${post.at}`)));
    await world.settled();
    await world.consume();
    await world.settled();
  }
  return { delivered: tenants * gaps, commits: commits.length };
}

type Post = Readonly<{ at: number; tenant: string }>;

/**
 * Groups posts into commits. An intake commits at once unless a commit is under way; posts that come meanwhile share
 * the next one.
 */
function commitsOf(posts: Post[]): Readonly<{ at: number; posts: Post[] }>[] {
  const commits: { at: number; posts: Post[] }[] = [];
  for (const post of posts.sort((a, b) => a.at - b.at)) {
    const last = commits.at(-1);
    if (last && post.at <= last.at) last.posts.push(post);
    else commits.push({ at: Math.max(post.at, last ? last.at + COMMIT_MS : 0), posts: [post] });
  }
  return commits;
}

async function stored({ all }: Deployment): Promise<{ rows: number; bytes: number }> {
  const [db] = all as [D1Database];
  const tables = ["bundles", "packs", "deliveries", "idempotency_keys"];
  const counts = tables.map((table) => `(SELECT count(*) FROM ${table})`);
  const { results, meta } = await db.prepare(`SELECT ${counts.join(" + ")} AS n`).run<{ n: number }>();
  return { rows: results[0]?.n ?? 0, bytes: meta.size_after };
}

function reset({ d1, counted }: Deployment): void {
  d1.used();
  for (const unit of Object.keys(counted) as (keyof typeof counted)[]) counted[unit] = 0;
}

function usedBy({ d1, counted }: Deployment, delivered: number, commits: number): Used {
  const used = d1.used();
  const units: Units = {
    ...noUnits(),
    d1RowsRead: used.rowsRead,
    d1RowsWritten: used.rowsWritten,
    d1RoundTrips: used.roundTrips,
    queueWritten: counted.messages,
    queueRead: counted.messages,
    queueDeleted: counted.messages,
    gateRequests: counted.gateCalls,
    gateRowsWritten: counted.gateRows,
    gateMs: counted.gateCalls * GATE_MS,
    intakeRequests: counted.intakeCalls,
    intakeMs: commits * INTAKE_MS,
    invocations: counted.invocations,
    logLines: counted.logLines,
  };
  return { units, cpuMs: delivered * cpuMsOfOne() };
}

/** CPU ms of an event that is posted and delivered singly, from the saved profile. */
function cpuMsOfOne(): number {
  const column = saved("profile").columns.find(
    ({ shape, what }) => shape === "one by one" && what === "delivered",
  );
  if (!column) throw new Error("bench/results/profile.json has no CPU time of single events");
  return column.micros / 1_000;
}
