/** GET /v1/stats: what the gates have counted within a window, for one destination, a tenant or all. */
import { createRoute, z } from "@hono/zod-openapi";
import { readFleet } from "../metrics/fleet.ts";
import { windows } from "../policy/stats-window.ts";
import { readCounts } from "../store/counts.ts";
import { retryingForADay } from "../store/retries.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { tenantName } from "./names.ts";
import { noSuch, problem, problemResponses } from "./problems.ts";
import { jsonAnswer } from "./route-parts.ts";
import { statsSchema } from "./stats-schema.ts";
import { statsView } from "./stats-view.ts";
import { strict } from "./strict.ts";

const getStats = createRoute({
  method: "get",
  path: "/v1/stats",
  summary: "Show figures of a time",
  description: "Rates, latency, what waits and traffic over time: of one destination, of a tenant or of all.",
  tags: ["Health"],
  middleware: [requires("read")],
  request: {
    query: strict({
      window: z.enum(windows).default("1h").openapi({ description: "The time that ends now." }),
      destination_id: z.string().optional().openapi({ description: "Of this destination alone." }),
      tenant: tenantName.optional().openapi({ description: "Of this tenant alone." }),
    }),
  },
  responses: {
    200: jsonAnswer(statsSchema, "The figures of the window that ends now."),
    ...problemResponses(401, 403, 404, 422, 429),
  },
});

export function registerStats(api: Api): void {
  api.openapi(getStats, async (c) => {
    const services = c.get("services");
    const { window, destination_id: destination, tenant: named } = c.req.valid("query");
    const { tenant = named } = c.get("principal");
    if (named !== undefined && named !== tenant) return problem(403, "The key belongs to another tenant");
    const scope = { tenant, destination };
    const isWhole = tenant === undefined && destination === undefined;
    const [fleet, old, counts] = await Promise.all([
      readFleet(services, scope, { windows: [window], series: true }),
      retryingForADay(services, scope, services.now()),
      isWhole ? readCounts(services) : undefined,
    ]);
    if (destination !== undefined && fleet.total === 0) return noSuch("destination", destination);
    const deduplicated = counts ? (counts.deduplicated ?? 0) : null;
    const keyed = counts ? (counts.keyed ?? 0) + (counts.deduplicated ?? 0) : null;
    const whole = { retrying_for_a_day: old, deduplicated, keyed_requests: keyed };
    return c.json({ ...statsView(fleet, window), ...whole }, 200);
  });
}
