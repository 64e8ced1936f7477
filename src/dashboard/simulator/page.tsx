/**
 * The policy lab: a retry policy is looked at before it is given to a destination. A GET form, so that a
 * policy under consideration is an address that can be sent to a colleague; only applying it changes anything.
 */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { z } from "zod";
import { type Checked, errorsOf } from "../../api/problems.ts";
import { defaultGateSettings } from "../../core/limits.ts";
import {
  type RetryPolicy,
  type RetrySpec,
  resolveRetry,
  retryPreviewOf,
  retrySpec,
} from "../../core/retry/policy.ts";
import { commonRules, policyTable, policyTableHead } from "../../core/retry/presets.ts";
import {
  type Destination,
  findDestination,
  gateSettingsOf,
  listDestinations,
} from "../../db/destinations.ts";
import { type Form, textIn } from "../components/forms.tsx";
import { showPage } from "../components/layout.tsx";
import { Copyable, doneAt, Prose, RefusedNotice } from "../components/parts.tsx";
import type { CallApi, Refused } from "../internal-client.ts";
import type { DashboardContext, DashboardEnv } from "../session.ts";
import {
  type Comparison,
  compare,
  OutageChart,
  type OutageName,
  OutageTable,
  outageNamed,
} from "./outages.tsx";
import { fieldsOf, PATH, type PolicyFields, PolicyForm, specIn } from "./policy-form.tsx";
import { ScheduleChart, summaryOf } from "./schedule-chart.tsx";

// §§ The presets side by side, and what holds for all of them: in the policy lab and in the reference.

export const PolicyTable: FC = () => (
  <>
    <ul>
      {commonRules.map((rule) => (
        <li>
          <Prose text={rule} />
        </li>
      ))}
    </ul>
    <section class="scroll" tabindex={0} aria-label="Presets side by side">
      <table>
        <thead>
          <tr>
            {policyTableHead.map((title) => (
              <th scope="col">{title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {policyTable().map(([name, ...cells]) => (
            <tr>
              <th scope="row">{name}</th>
              {cells.map((cell) => (
                <td>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  </>
);

// §§ The policy lab's page: the form, what the policy promises, and what it does in an outage.

/** A policy that is valid, and what came of it. */
type Tried = Readonly<{ spec: RetrySpec; policy: RetryPolicy; comparison: Comparison }>;

type Props = Readonly<{
  fields: PolicyFields;
  outage: OutageName;
  destinations: readonly Destination[];
  chosen: Destination | undefined;
  mayChange: boolean;
  tried: Tried | undefined;
  refused: Refused | undefined;
}>;

const SimulatorPage: FC<Props> = ({ tried, refused, ...form }) => (
  <>
    <section>
      <h1>Policy lab</h1>
      <p class="lede">
        When is a delivery tried again, when is it given up, and what does a receiver see of that in an
        outage? Tried here first, by the same code that decides in production.
      </p>
    </section>
    {refused && <RefusedNotice refused={refused} />}
    <PolicyForm {...form} />
    {tried && <Schedule tried={tried} />}
    {tried && <Outage tried={tried} />}
    <section aria-labelledby="presets">
      <div class="head">
        <h2 id="presets">The presets side by side</h2>
      </div>
      <PolicyTable />
    </section>
    {tried && (
      <section aria-labelledby="as-json">
        <div class="head">
          <h2 id="as-json">For the API</h2>
          <span class="soft small">The field retry of a destination</span>
        </div>
        <Copyable
          id="spec"
          label="The policy as JSON"
          text={JSON.stringify({ retry: tried.spec }, null, 2)}
        />
      </section>
    )}
  </>
);

/** Attempts drawn at most. */
const SHOWN = 200;

const Schedule: FC<{ tried: Tried }> = ({ tried: { policy } }) => {
  const prospect = retryPreviewOf(policy, SHOWN);
  return (
    <section aria-labelledby="schedule">
      <div class="head">
        <h2 id="schedule">If every attempt fails</h2>
        <div class="legend" aria-hidden="true">
          <span class="tone-good">an attempt, and where jitter may put it</span>
          <span class="tone-bad">given up</span>
        </div>
      </div>
      <p class="said">{summaryOf(policy, prospect)}</p>
      <ScheduleChart policy={policy} prospect={prospect} />
    </section>
  );
};

const Outage: FC<{ tried: Tried }> = ({ tried: { comparison } }) => (
  <section aria-labelledby="outage">
    <div class="head">
      <h2 id="outage">{`If the receiver is down for ${comparison.outage.says}`}</h2>
      <div class="legend" aria-hidden="true">
        <span class="tone-good">requests a second</span>
        <span class="tone-bad">failed</span>
      </div>
    </div>
    <div class="stack">
      <OutageChart comparison={comparison} />
      <OutageTable comparison={comparison} />
    </div>
  </section>
);

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
