/** A destination's retry policy in a sentence, and the way to the lab, where another can be tried. */
import type { FC } from "hono/jsx";
import { retryPreviewOf } from "../policy/prospect.ts";
import { type Destination, retryPolicyOf } from "../store/destination-settings.ts";
import { summaryOf } from "./lab/schedule-chart.tsx";

/** Attempts looked at. */
const MOST = 200;

export const RetryPolicySummary: FC<{ row: Destination }> = ({ row }) => {
  const policy = retryPolicyOf(row);
  return (
    <section aria-labelledby="retry-policy">
      <div class="head">
        <h2 id="retry-policy">Retry policy</h2>
      </div>
      <p class="said">{summaryOf(policy, retryPreviewOf(policy, MOST))}</p>
      <a class="button" href={`/dashboard/lab?destination=${row.id}`}>
        See it in the policy lab
      </a>
    </section>
  );
};
