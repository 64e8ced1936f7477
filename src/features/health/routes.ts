/**
 * `GET /v1/health` for uptime monitors, without a key, and `GET /metrics` for Prometheus. The health is that of the
 * sweep, which repairs all losses: no other signal would show that it has stalled.
 *
 * Anyone may request the health, so an isolate reads it at most once in a few seconds, for any number of requests, and
 * the sizes of the databases, which reveal the traffic, are only in the metrics. The request that finds a stall
 * publishes it.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { isStalled } from "../../core/alerts.ts";
import { isRemembered } from "../../core/credentials.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { answerOf, comeAgain, problemResponses, retryAfter } from "../../http/problems.ts";
import { jsonAnswer, routeTo } from "../../http/routes.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import {
  type AppliedMigration,
  LATEST_MIGRATION,
  readAppliedMigrations,
  readSystemHealth,
  type SystemHealth,
} from "../../store/stats.ts";
import { isoTime, within } from "../../time.ts";
import { publishStall } from "../notifications/publish.ts";
import { documented, time } from "../parameters.ts";
import { CONTENT_TYPE } from "../stats/exposition.ts";
import { getMetrics } from "../stats/service.ts";

/** Registered before authentication. */
export function registerHealth(api: Api): void {
  const healthOf = sharedHealth();
  api.openapi(getHealth, async (c) => {
    const services = c.get("services");
    const health = await healthOf(services);
    if (health === undefined)
      return c.json({ ...NOTHING_KNOWN, status: "unreachable" as const }, 503, UNHEALTHY);
    if (health.kind === "not_migrated") {
      const { applied: databases } = health;
      return c.json({ ...NOTHING_KNOWN, status: "not_migrated" as const, databases }, 503, UNHEALTHY);
    }
    const { heartbeatAt, oldestDueAt, databases, migrations } = health;
    const now = services.now();
    const shown = {
      sweep: sweepView(heartbeatAt, now),
      oldest_due: dueView(oldestDueAt, now),
      migration: LATEST_MIGRATION,
      databases: databases.map(({ name }, n) => ({ name, migration: migrations[n] ?? null })),
    };
    if (isStalled(heartbeatAt, now)) return c.json({ status: "stalled" as const, ...shown }, 503, UNHEALTHY);
    return c.json({ status: "ok" as const, ...shown }, 200, CACHED);
  });
}

export function registerMetrics(api: Api): void {
  api.openapi(metricsRoute, async (c) => {
    const shown = await getMetrics(callerIn(c), undefined);
    return shown.kind === "ok" ? c.text(shown.value, 200, { "content-type": CONTENT_TYPE }) : answerOf(shown);
  });
}

const databaseSchema = z.object({
  name: z.string().openapi({ description: "The name of its binding.", example: "DB" }),
  migration: z
    .string()
    .nullable()
    .openapi({
      description:
        "The migration that was applied to it last. One before the deployment's own `migration`: it has not been " +
        "migrated for this version. A later one: the version was rolled back. Null: wrangler has left no record.",
      example: LATEST_MIGRATION,
    }),
});

const healthSchema = documented("Health", {
  status: z
    .enum(["ok", "stalled", "unreachable", "not_migrated"])
    .describe(
      "`stalled`: the sweep has not run for more than five minutes. `unreachable`: the database does not answer, so " +
        "nothing else is known. `not_migrated`: a database has the tables of another version: its `migration` is not the " +
        "deployment's own.",
    ),
  sweep: z
    .object({ heartbeat_at: time, age_s: z.number() })
    .nullable()
    .describe("Null until the sweep has run for the first time."),
  oldest_due: z
    .object({ due_at: time, age_s: z.number() })
    .nullable()
    .describe(
      "The retry that has been due for the longest time and has not been made; null when none is due.",
    ),
  migration: z.string().openapi({
    description: "The latest migration that this version was written for.",
    example: LATEST_MIGRATION,
  }),
  databases: z.array(databaseSchema),
});

const getHealth = createRoute({
  method: "get",
  path: "/v1/health",
  summary: "Show the health of the deployment",
  description:
    "For uptime monitors: whether the sweep, which repairs what was lost, has run recently, and which migrations D1 has. " +
    "How much room is left in D1 is in `/metrics`.",
  tags: ["Monitoring"],
  security: [],
  responses: {
    200: jsonAnswer(healthSchema, "The sweep runs."),
    503: jsonAnswer(
      healthSchema,
      "The sweep has not run for more than five minutes, or the database does not answer, or has not been migrated.",
      retryAfter,
    ),
  },
});

const EXAMPLE = `# HELP breakwater_oldest_due_seconds How long the retry that was due first is overdue; 0 when none is.
# TYPE breakwater_oldest_due_seconds gauge
breakwater_oldest_due_seconds 0
`;

const metricsRoute = createRoute({
  ...routeTo("get", "/metrics", getMetrics),
  summary: "Show metrics for Prometheus",
  description: "The figures of all tenants, so not for keys that are bound to one.",
  tags: ["Monitoring"],
  responses: {
    200: {
      description:
        "Metrics in Prometheus's text format. Scrape them once a minute: each scrape calls the gates.",
      content: { "text/plain": { schema: z.string(), example: EXAMPLE } },
    },
    ...problemResponses(401, 403, 429),
  },
});

const NOTHING_KNOWN = { sweep: null, oldest_due: null, migration: LATEST_MIGRATION, databases: [] };

/** How long an isolate caches the health. */
const REMEMBERED_MS = 5_000;

/** How long a request waits for D1: a longer wait is a failure that a monitor must see. */
const PATIENCE_MS = 5_000;

const CACHED = { "cache-control": `public, max-age=${REMEMBERED_MS / 1000}` };
const UNHEALTHY = { "cache-control": "no-store", ...comeAgain };

/** Facts that are known while the database answers. */
type Known =
  | (Readonly<{ kind: "read"; migrations: readonly (string | null)[] }> & SystemHealth)
  /** The database lacks the tables that the health is read from. */
  | Readonly<{ kind: "not_migrated"; applied: AppliedMigration[] }>;

/**
 * Reads the health once for all requests within `REMEMBERED_MS`. Undefined while the database does not answer: that is
 * a separate status, not an error.
 */
function sharedHealth(): (services: Services) => Promise<Known | undefined> {
  let last: Readonly<{ readAt: number; health: Promise<Known | undefined> }> | undefined;
  return async (services) => {
    const now = services.now();
    if (last === undefined || !isRemembered(last.readAt, now, REMEMBERED_MS)) {
      last = { readAt: now, health: readHealth(services) };
      // Others wait for it, and must not lose it when the client of this request goes away.
      services.background(last.health);
    }
    // Each request has its own timer, because the request that reads may be gone.
    return within(services, PATIENCE_MS, last.health).catch(() => undefined);
  };
}

async function readHealth(services: Services): Promise<Known | undefined> {
  // Begun together; the second does not fail.
  const reading = within(services, PATIENCE_MS, readSystemHealth(services));
  const applying = within(services, PATIENCE_MS, readAppliedMigrations(services)).catch(() => []);
  try {
    const health = await reading;
    const migrations = (await applying).map((applied) => applied?.migration ?? null);
    if (isStalled(health.heartbeatAt, services.now()))
      services.background(publishStall(services, health.heartbeatAt));
    return { kind: "read", ...health, migrations };
  } catch (error) {
    services.log({ what: "health_unknown", error: faultOf(error) });
    const applied = (await applying).flatMap((one) => one ?? []);
    const isOther = applied.some(({ migration }) => migration !== null && migration !== LATEST_MIGRATION);
    return isOther ? { kind: "not_migrated", applied } : undefined;
  }
}

function sweepView(heartbeatAt: number | null, now: number) {
  if (heartbeatAt === null) return null;
  return { heartbeat_at: isoTime(heartbeatAt), age_s: secondsSince(heartbeatAt, now) };
}

function dueView(dueAt: number | null, now: number) {
  if (dueAt === null || dueAt > now) return null;
  return { due_at: isoTime(dueAt), age_s: secondsSince(dueAt, now) };
}

function secondsSince(at: number, now: number): number {
  return Math.floor((now - at) / 1000);
}
