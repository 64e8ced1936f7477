/** GET /metrics, for Prometheus: all tenants' figures, so a key that is bound to one may not read it. */
import { createRoute, z } from "@hono/zod-openapi";
import { CONTENT_TYPE, expose } from "../metrics/exposition.ts";
import { scrape } from "../metrics/scrape.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { problem, problemResponses } from "./problems.ts";

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
