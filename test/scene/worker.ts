/**
 * Breakwater standing still: the real pages over the rows of the scene, gates that say what is written, and
 * a clock that does not move. What is looked at is the same every time, and every state is there at once.
 */
import { createApp } from "../../src/api/app.ts";
import { documentOf } from "../../src/api/openapi/document.ts";
import type { FiguresQuery } from "../../src/core/gate-view.ts";
import { createDashboard } from "../../src/dashboard/app.tsx";
import { createDocs } from "../../src/docs-site/app.tsx";
import { type Services, servicesOf } from "../../src/services.ts";
import { figuresOf } from "../support/figures.ts";
import { doors } from "./cast.ts";
import { door, NOW, quiet } from "./doors.ts";

export { DestinationGate } from "../../src/gate/durable-object.ts";
export { Intake } from "../../src/ingest/intake.ts";

const idle = door(quiet);

function gate(name: string) {
  const { view, rollups } = doors.get(name) ?? idle;
  return {
    view: async () => view,
    figures: async (look: FiguresQuery) => figuresOf(view, rollups, look, NOW),
    refusal: async () => view.refusal,
    claimTest: async () => null,
  };
}

/** Nothing is called: every receiver is down, as Billing is. */
async function receiver(): Promise<Response> {
  return new Response("upstream connect error: connection refused", { status: 503 });
}

function services(env: Env, ctx: Pick<ExecutionContext, "waitUntil">): Services {
  const gates = { idFromName: (name: string) => name, get: gate } as unknown as Services["gates"];
  return { ...servicesOf(env, ctx), gates, fetch: receiver, now: () => NOW };
}

const app = createApp({ services });
const docs = createDocs(() => documentOf(app));
const pages = new Map<string | undefined, Pick<typeof app, "fetch">>([
  ["dashboard", createDashboard({ services })],
  ["docs", docs],
]);

export default {
  fetch(request, env, ctx) {
    const [, first] = new URL(request.url).pathname.split("/");
    return (pages.get(first) ?? app).fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Env>;
