/** The presets side by side, and what holds for all of them: in the policy lab and in the reference. */
import type { FC } from "hono/jsx";
import { commonRules, policyTable, policyTableHead } from "../../policy/policy-table.ts";
import { Prose } from "../parts.tsx";

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
