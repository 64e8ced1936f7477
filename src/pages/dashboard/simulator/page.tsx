/**
 * The retry simulator shows what a policy does before it is applied to a destination. The form uses GET, so that a
 * policy under consideration has a URL that can be shared; only applying it changes anything.
 */
import type { FC } from "hono/jsx";
import { z } from "zod";
import { type Checked, errorsOf } from "../../../core/field-errors.ts";
import { defaultGateSettings } from "../../../core/limits.ts";
import type { Refused } from "../../../core/result.ts";
import { type RetryPolicy, type RetrySpec, resolveRetry, retryShape } from "../../../core/retry/policy.ts";
import { commonRules, policyTable, policyTableHead } from "../../../core/retry/policy-table.ts";
import { retryPreviewOf } from "../../../core/retry/preview.ts";
import { readAs } from "../../../core/shape.ts";
import { zodOf } from "../../../core/zod-of.ts";
import { updateDestination } from "../../../features/destinations/service.ts";
import { type Destination, gateSettingsOf } from "../../../store/destination.ts";
import { findDestination, listDestinations } from "../../../store/destinations.ts";
import { Legend } from "../../ui/charts.tsx";
import { type Form, textIn } from "../../ui/format.ts";
import { Copyable, Prose, Section, Top } from "../../ui/parts.tsx";
import { saveDestination } from "../../ui/services.ts";
import { showPage } from "../components/layout.tsx";
import { outcomeAt } from "../outcomes.ts";
import { callerOnPage, type Dashboard, type DashboardContext, mayCall } from "../session.ts";
import { type Comparison, compare, OutageChart, OutageTable, outageNamed } from "./outages.tsx";
import { PATH, type PolicyFields, PolicyForm, policyFieldsOf, specIn } from "./policy-form.tsx";
import { ScheduleChart, summaryOf } from "./schedule-chart.tsx";

export function registerSimulator(app: Dashboard): void {
  app.get(PATH, (c) => showSimulator(c, c.req.query()));

  app.post(PATH, async (c) => {
    const form = await c.req.parseBody();
    const id = textIn(form, "destination") ?? "none";
    const change = { id, input: { retry: specIn(form) }, requestUrl: c.req.url };
    const updated = await saveDestination(callerOnPage(c), change);
    if (updated.kind !== "ok") return showSimulator(c, form, updated);
    return c.redirect(outcomeAt(`/dashboard/destinations/${id}`, "policy"), 303);
  });
}

/** Destinations to choose from. */
const LISTED = 100;

async function showSimulator(c: DashboardContext, form: Form, refused?: Refused) {
  const { db } = c.get("services");
  const { tenant } = c.get("visitor");
  const id = textIn(form, "destination");
  const [destinations, chosen] = await Promise.all([
    listDestinations(db, { tenant, after: undefined, limit: LISTED }),
    id === undefined ? undefined : findDestination(db, id, tenant),
  ]);
  const outage = outageNamed(textIn(form, "outage"));
  const { fields, spec } = policyIn(form, chosen);
  const policy = "kind" in spec ? undefined : resolveRetry(spec);
  const settings = chosen ? gateSettingsOf(chosen) : defaultGateSettings;
  const comparison = policy && (await compare(policy, settings, outage));
  const shown = refused ?? ("kind" in spec ? spec : undefined);
  const mayChange = mayCall(c, updateDestination);
  return showPage(
    c,
    { title: "Retry simulator", place: "simulator", refused: shown },
    <>
      <Top
        title="Retry simulator"
        lede="See when a policy retries a delivery, when it gives up, and what a receiver sees of it in an outage, before you apply the policy. The simulation runs the code that decides in production."
      />
      <PolicyForm {...{ fields, outage, destinations, chosen, mayChange }} refused={shown} />
      {policy && <Schedule policy={policy} />}
      {comparison && <Outage comparison={comparison} />}
      <Section id="presets" title="Presets compared">
        <PolicyTable />
      </Section>
      {policy && (
        <Section
          id="as-json"
          title="For the API"
          aside={
            <span class="soft small">
              The field <code>retry</code> of a destination
            </span>
          }
        >
          <Copyable id="spec" label="The policy as JSON" text={JSON.stringify({ retry: spec }, null, 2)} />
        </Section>
      )}
    </>,
  );
}

type PolicyIn = Readonly<{ fields: PolicyFields; spec: RetrySpec | Refused }>;

/** The policy in the form, or the destination's own when the form is empty. */
function policyIn(form: Form, chosen: Destination | undefined): PolicyIn {
  if (textIn(form, "preset") === undefined) {
    const spec = { preset: "breakwater" as const, ...readAs(retryShape, chosen?.retry) };
    return { fields: policyFieldsOf(spec), spec };
  }
  const typed = Object.entries(form).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  return { fields: Object.fromEntries(typed), spec: validated(specIn(form)) };
}

const body = z.object({ retry: zodOf(retryShape) });

/** Validated as the API validates a destination's `retry`, with the same messages. */
function validated(retry: unknown): RetrySpec | Refused {
  const data = { retry };
  const result = body.safeParse(data);
  if (result.success) return result.data.retry;
  const errors = errorsOf({ ...result, data } as Checked);
  return { kind: "invalid", detail: "The policy is not valid", errors };
}

/** The limit of attempts drawn. */
const MAX_ATTEMPTS = 200;

const Schedule: FC<{ policy: RetryPolicy }> = ({ policy }) => {
  const preview = retryPreviewOf(policy, MAX_ATTEMPTS);
  return (
    <Section
      id="schedule"
      title="If every attempt fails"
      aside={<Legend good="an attempt and its range of jitter" bad="given up" />}
    >
      <p class="summary">{summaryOf(policy, preview)}</p>
      <ScheduleChart policy={policy} preview={preview} />
    </Section>
  );
};

const Outage: FC<{ comparison: Comparison }> = ({ comparison }) => (
  <Section
    id="outage"
    title={`If the receiver is down for ${comparison.outage.title}`}
    aside={<Legend good="requests per second" bad="failed" />}
  >
    <div class="stack">
      <OutageChart comparison={comparison} />
      <OutageTable comparison={comparison} />
    </div>
  </Section>
);

/** The presets side by side and the rules common to all; the API reference shows them too. */
export const PolicyTable: FC = () => (
  <>
    <ul>
      {commonRules.map((rule) => (
        <li>
          <Prose text={rule} />
        </li>
      ))}
    </ul>
    <section class="scroll" tabindex={0} aria-label="Presets compared">
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
