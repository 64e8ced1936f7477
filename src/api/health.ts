/**
 * Whether the machinery runs, for a monitor that has no key. The sweep repairs whatever was lost, so its
 * silence is the one failure that nothing else would show; a full database is the one that can be foreseen.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { type Fullness, readVitals } from "../store/vitals.ts";
import type { Api } from "./context.ts";
import { jsonAnswer } from "./route-parts.ts";

const STALLED_AFTER_MS = 5 * 60_000;

const roomSchema = z.object({
  name: z.string().openapi({ description: "As it is bound.", example: "DB" }),
  bytes: z.int().openapi({ description: "How large it is.", example: 1_482_752_000 }),
  headroom_bytes: z.int().openapi({ description: "What it may still grow by.", example: 8_517_248_000 }),
});

const healthSchema = z
  .object({
    status: z.enum(["ok", "stalled"]),
    sweep: z.object({ heartbeat_at: z.iso.datetime(), age_s: z.number() }).nullable().openapi({
      description: "Null until the sweep has run for the first time.",
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
    503: jsonAnswer(healthSchema, "The sweep has been silent for more than five minutes."),
  },
});

/** Registered before authentication. */
export function registerHealth(api: Api): void {
  api.openapi(getHealth, async (c) => {
    const services = c.get("services");
    const { heartbeatAt, databases } = await readVitals(services);
    const room = { databases: databases.map(roomView) };
    if (heartbeatAt === null) return c.json({ status: "ok" as const, sweep: null, ...room }, 200);
    const ageMs = services.now() - heartbeatAt;
    const sweep = { heartbeat_at: new Date(heartbeatAt).toISOString(), age_s: Math.floor(ageMs / 1000) };
    if (ageMs > STALLED_AFTER_MS) return c.json({ status: "stalled" as const, sweep, ...room }, 503);
    return c.json({ status: "ok" as const, sweep, ...room }, 200);
  });
}

function roomView({ name, bytes, headroomBytes }: Fullness): z.infer<typeof roomSchema> {
  return { name, bytes, headroom_bytes: headroomBytes };
}
