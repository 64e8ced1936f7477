/**
 * Whether the machinery runs, for a monitor that has no key. The sweep repairs whatever was lost, so its
 * silence is the one failure that nothing else would show.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { sweeps } from "../store/schema.ts";
import type { Api } from "./context.ts";
import { jsonAnswer } from "./route-parts.ts";

const STALLED_AFTER_MS = 5 * 60_000;

const healthSchema = z
  .object({
    status: z.enum(["ok", "stalled"]),
    sweep: z.object({ heartbeat_at: z.iso.datetime(), age_s: z.number() }).nullable().openapi({
      description: "Null until the sweep has run for the first time.",
    }),
  })
  .openapi("Health");

const getHealth = createRoute({
  method: "get",
  path: "/v1/health",
  summary: "Show whether the machinery runs",
  description: "For a monitor: whether the sweep, which repairs what was lost, has run of late.",
  tags: ["Health"],
  security: [],
  responses: {
    200: jsonAnswer(healthSchema, "The sweep runs."),
    503: jsonAnswer(healthSchema, "The sweep has been silent for more than five minutes."),
  },
});

/** Registered before authentication. */
export function registerHealth(api: Api): void {
  api.openapi(getHealth, async (c) => {
    const { db, now } = c.get("services");
    const row = await drizzle(db).select().from(sweeps).where(eq(sweeps.id, 1)).get();
    if (row === undefined) return c.json({ status: "ok" as const, sweep: null }, 200);
    const ageMs = now() - row.heartbeatAt;
    const sweep = { heartbeat_at: new Date(row.heartbeatAt).toISOString(), age_s: Math.floor(ageMs / 1000) };
    if (ageMs > STALLED_AFTER_MS) return c.json({ status: "stalled" as const, sweep }, 503);
    return c.json({ status: "ok" as const, sweep }, 200);
  });
}
