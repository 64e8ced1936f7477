/** Saving a destination's limits. */
import type { Hono } from "hono";
import type { DashboardEnv } from "./context.ts";
import { showDestination } from "./destination.tsx";
import { type Form, numberIn } from "./form-fields.ts";
import type { CallApi } from "./inside.ts";
import { breaker, limits } from "./limits-form.tsx";
import { doneAt } from "./notices.tsx";

export function registerLimits(app: Hono<DashboardEnv>, callApi: CallApi): void {
  app.post("/dashboard/destinations/:id/limits", async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const answer = await callApi(c, "PATCH", `/v1/destinations/${id}`, changeIn(form));
    if (!answer.ok) return showDestination(c, id, { refused: answer, typed: form });
    return c.redirect(doneAt(`/dashboard/destinations/${id}`, "limits", "#limits"), 303);
  });
}

function changeIn(form: Form) {
  const pick = (fields: typeof limits | typeof breaker) =>
    Object.fromEntries(fields.map(([name]) => [name, numberIn(form, name)]));
  return { ...pick(limits), breaker: pick(breaker) };
}
