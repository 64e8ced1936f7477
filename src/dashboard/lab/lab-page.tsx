/** The policy lab's page: the form, what the policy promises, and what it does in an outage. */
import type { FC } from "hono/jsx";
import { retryPreviewOf } from "../../policy/prospect.ts";
import type { RetryPolicy } from "../../policy/retry-policy.ts";
import type { RetrySpec } from "../../policy/retry-spec.ts";
import type { Destination } from "../../store/destination-settings.ts";
import type { Refused } from "../inside.ts";
import { RefusedNotice } from "../notices.tsx";
import { Copyable } from "../parts.tsx";
import { OutageChart } from "./outage-chart.tsx";
import { OutageTable } from "./outage-table.tsx";
import type { Comparison, OutageName } from "./outages.ts";
import type { PolicyFields } from "./policy-fields.ts";
import { PolicyForm } from "./policy-form.tsx";
import { PolicyTable } from "./policy-table.tsx";
import { ScheduleChart, summaryOf } from "./schedule-chart.tsx";

/** A policy that is valid, and what came of it. */
export type Tried = Readonly<{ spec: RetrySpec; policy: RetryPolicy; comparison: Comparison }>;

type Props = Readonly<{
  fields: PolicyFields;
  outage: OutageName;
  destinations: readonly Destination[];
  chosen: Destination | undefined;
  mayChange: boolean;
  tried: Tried | undefined;
  refused: Refused | undefined;
}>;

export const SimulatorPage: FC<Props> = ({ tried, refused, ...form }) => (
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
