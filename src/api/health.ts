/**
 * Whether the machinery runs, for a monitor that has no key. The sweep repairs whatever was lost, so its
 * silence is the one failure that nothing else would show; a full database is the one that can be foreseen.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { isStalled } from "../core/alerts.ts";
import { type DatabaseSize, readSystemHealth, type SystemHealth } from "../db/stats.ts";
import { faultOf } from "../log.ts";
import { CONTENT_TYPE, expose } from "../metrics/exposition.ts";
import { scrape } from "../metrics/families.ts";
import { publishStall } from "../notifications/publish.ts";
import type { Services } from "../services.ts";
import { isoTime } from "../time.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { jsonAnswer } from "./parameters.ts";
import { problem, problemResponses } from "./problems.ts";

const roomSchema = z.object({
  name: z.string().openapi({ description: "As it is bound.", example: "DB" }),
  bytes: z.int().openapi({ description: "How large it is.", example: 1_482_752_000 }),
  headroom_bytes: z.int().openapi({ description: "What it may still grow by.", example: 8_517_248_000 }),
});

const healthSchema = z
  .object({
    status: z.enum(["ok", "stalled", "unreachable"]).openapi({
      description: "`unreachable`: the database does not answer, so nothing is known.",
    }),
    sweep: z.object({ heartbeat_at: z.iso.datetime(), age_s: z.number() }).nullable().openapi({
      description: "Null until the sweep has run for the first time.",
    }),
    oldest_due: z.object({ due_at: z.iso.datetime(), age_s: z.number() }).nullable().openapi({
      description: "The retry that has been due for longest and is not made yet; null when none is due.",
    }),
    databases: z.array(roomSchema),
  })
  .openapi("Health");

const getHealth = createRoute({
  method: "get",
  path: "/v1/health",
  summary: "Show whether the machinery runs",
  description:
    "For a monitor: whether the sweep, which repairs what was lost, has run of late, and how much room is left " +
    "in D1.",
  tags: ["Health"],
  security: [],
  responses: {
    200: jsonAnswer(healthSchema, "The sweep runs."),
    503: jsonAnswer(
      healthSchema,
      "The sweep has been silent for more than five minutes, or nothing can be known.",
    ),
  },
});

/** Registered before authentication. */
export function registerHealth(api: Api): void {
  api.openapi(getHealth, async (c) => {
    const services = c.get("services");
    const vitals = await vitalsOf(services);
    if (vitals === undefined) return c.json({ ...NOTHING_KNOWN, status: "unreachable" as const }, 503);
    const { heartbeatAt, oldestDueAt, databases } = vitals;
    const room = { databases: databases.map(roomView) };
    const now = services.now();
    const known = { sweep: sweepView(heartbeatAt, now), oldest_due: dueView(oldestDueAt, now), ...room };
    if (!isStalled(heartbeatAt, now)) return c.json({ status: "ok" as const, ...known }, 200);
    services.background(publishStall(services, heartbeatAt));
    return c.json({ status: "stalled" as const, ...known }, 503);
  });
}

const NOTHING_KNOWN = { sweep: null, oldest_due: null, databases: [] };

/** Undefined while the database is away: a monitor is told so in the words that it knows. */
async function vitalsOf(services: Services): Promise<SystemHealth | undefined> {
  try {
    return await readSystemHealth(services);
  } catch (error) {
    services.log({ what: "health_unknown", error: faultOf(error) });
    return undefined;
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

function roomView({ name, bytes, headroomBytes }: DatabaseSize): z.infer<typeof roomSchema> {
  return { name, bytes, headroom_bytes: headroomBytes };
}

// §§ GET /metrics, for Prometheus: all tenants' figures, so a key that is bound to one may not read it.

const EXAMPLE = `# HELP breakwater_oldest_due_seconds How long the retry that was due first is overdue; 0 when none is.
# TYPE breakwater_oldest_due_seconds gauge
breakwater_oldest_due_seconds 0
`;

const getMetrics = createRoute({
  method: "get",
  path: "/metrics",
  summary: "Show all figures to Prometheus",
  tags: ["Health"],
  middleware: [requires("read")],
  responses: {
    200: {
      description: "Prometheus's text format. Scrape it once a minute: every gate is asked at each look.",
      content: { "text/plain": { schema: z.string(), example: EXAMPLE } },
    },
    ...problemResponses(401, 403, 429),
  },
});

export function registerMetrics(api: Api): void {
  api.openapi(getMetrics, async (c) => {
    if (c.get("principal").tenant !== undefined)
      return problem(403, "The key is bound to a tenant; these are the figures of all. See /v1/stats");
    return c.text(expose(await scrape(c.get("services"))), 200, { "content-type": CONTENT_TYPE });
  });
}
