/** The section of the reference about deliveries that have not arrived, which the dashboard links to. */
import type { FC } from "hono/jsx";
import { Prose } from "../../pages/ui/parts.tsx";
import { remedyAnchor } from "../../pages/ui/status-text.ts";
import { Chapter } from "./fields.tsx";
import { remedies, steps } from "./remedies.ts";

export const Troubleshooting: FC = () => (
  <Chapter title="Troubleshooting">
    <p class="lede">When a delivery has not arrived, check these in this order.</p>
    <ol>
      {steps.map((step) => (
        <li>
          <Prose text={step} />
        </li>
      ))}
    </ol>
    <dl class="fields-of" aria-label="Reasons">
      {remedies.map(({ reason, meaning, remedy }) => (
        <div>
          <dt>
            {reason.split(", ").map((name) => (
              <span id={remedyAnchor(name.replace(" and the like", ""))} />
            ))}
            <code>{reason}</code>
          </dt>
          <dd>
            <Prose text={`${meaning} ${remedy}`} />
          </dd>
        </div>
      ))}
    </dl>
  </Chapter>
);
