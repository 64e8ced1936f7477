/** The form that sends a test event: of the plain type, or with a type's example from the catalogue. */
import type { Child, FC } from "hono/jsx";
import { plainTest } from "../../delivery/test-event.ts";
import { Submit } from "./parts.tsx";

type Props = Readonly<{
  /** The page of the destination. */
  path: string;
  /** Types that have an example. */
  types: readonly string[];
  chosen: string | undefined;
  label: string;
  verb: string;
  children?: Child;
}>;

export const TestForm: FC<Props> = ({ path, types, chosen, label, verb, children }) => (
  <form class="stack" method="post" action={`${path}/test`}>
    {types.length > 0 && (
      <div class="fields">
        <label>
          {label}
          <select name="type">
            {[...new Set([plainTest.type, ...types])].map((type) => (
              <option value={type} selected={type === chosen}>
                {type}
              </option>
            ))}
          </select>
        </label>
      </div>
    )}
    <div class="actions">
      <Submit>{verb}</Submit>
      {children}
    </div>
  </form>
);
