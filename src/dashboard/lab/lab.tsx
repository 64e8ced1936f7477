/**
 * The policy lab: a retry policy is looked at before it is given to a destination. A GET form, so that a
 * policy under consideration is an address that can be sent to a colleague; only applying it changes anything.
 */
import type { Hono } from "hono";
import { z } from "zod";
import { type Checked, errorsOf } from "../../api/field-errors.ts";
import { defaultGateSettings } from "../../policy/gate-settings.ts";
import { type RetrySpec, resolveRetry, retrySpec } from "../../policy/retry-spec.ts";
import { type Destination, gateSettingsOf } from "../../store/destination-settings.ts";
import { findDestination, listDestinations } from "../../store/destinations.ts";
import type { DashboardContext, DashboardEnv } from "../context.ts";
import { type Form, textIn } from "../form-fields.ts";
import type { CallApi, Refused } from "../inside.ts";
import { showPage } from "../layout.tsx";
import { doneAt } from "../notices.tsx";
import { SimulatorPage, type Tried } from "./lab-page.tsx";
import { compare, type OutageName, outageNamed } from "./outages.ts";
import { fieldsOf, type PolicyFields, specIn } from "./policy-fields.ts";
import { PATH } from "./policy-form.tsx";

export function registerSimulator(app: Hono<DashboardEnv>, callApi: CallApi): void {
  app.get(PATH, (c) => showLab(c, c.req.query()));

  app.post(PATH, async (c) => {
    const form = await c.req.parseBody();
    const id = encodeURIComponent(textIn(form, "destination") ?? "none");
    const answer = await callApi(c, "PATCH", `/v1/destinations/${id}`, { retry: specIn(form) });
    if (!answer.ok) return showLab(c, form, answer);
    return c.redirect(doneAt(`/dashboard/destinations/${id}`, "policy"), 303);
  });
}

/** Destinations to choose from. */
const LISTED = 100;

async function showLab(c: DashboardContext, form: Form, refused?: Refused) {
  const { db } = c.get("services");
  const { tenant, scopes } = c.get("visitor").principal;
  const id = textIn(form, "destination");
  const [destinations, chosen] = await Promise.all([
    listDestinations(db, { tenant, after: undefined, limit: LISTED }),
    id === undefined ? undefined : findDestination(db, id, tenant),
  ]);
  const outage = outageNamed(textIn(form, "outage"));
  const { fields, checked } = policyOf(form, chosen);
  const faults = "errors" in checked ? checked : undefined;
  return showPage(
    c,
    { title: "Policy lab", place: "lab" },
    <SimulatorPage
      fields={fields}
      outage={outage}
      destinations={destinations}
      chosen={chosen}
      mayChange={scopes.includes("admin")}
      tried={"errors" in checked ? undefined : tried(checked, chosen, outage)}
      refused={refused ?? faults}
    />,
    refused || faults ? 422 : 200,
  );
}

/** The policy that was typed, or the destination's own when nothing was. */
function policyOf(form: Form, chosen: Destination | undefined) {
  if (textIn(form, "preset") === undefined) {
    const own = retrySpec.safeParse(chosen?.retry ?? {});
    const spec = { preset: "breakwater" as const, ...(own.success && own.data) };
    return { fields: fieldsOf(spec), checked: spec };
  }
  const typed = Object.entries(form).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  const fields: PolicyFields = Object.fromEntries(typed);
  return { fields, checked: check(specIn(form)) };
}

const body = z.object({ retry: retrySpec });

/** In the words in which the API refuses a destination's `retry`. */
function check(retry: unknown): RetrySpec | Refused {
  const data = { retry };
  const result = body.safeParse(data);
  if (result.success) return result.data.retry;
  const errors = errorsOf({ ...result, data } as Checked);
  return { ok: false, status: 422, detail: "The policy is not valid", errors };
}

function tried(spec: RetrySpec, chosen: Destination | undefined, outage: OutageName): Tried {
  const policy = resolveRetry(spec);
  const gate = chosen ? gateSettingsOf(chosen) : defaultGateSettings;
  return { spec, policy, comparison: compare(policy, gate, outage) };
}
