/** A new signing secret, asked for twice: the first press only opens the second. */
import type { FC } from "hono/jsx";
import type { Destination } from "../store/destination-settings.ts";
import { untilOf } from "./figures.ts";

export const Rotation: FC<{ path: string; row: Destination; now: number }> = ({ path, row, now }) => {
  const until = row.previousSecretExpiresAt;
  return (
    <section aria-labelledby="secret-head">
      <div class="head">
        <h2 id="secret-head">Signing secret</h2>
      </div>
      {until !== null && until > now && (
        <p>{`Two secrets sign at the moment; the one before ends in ${untilOf(until, now)}.`}</p>
      )}
      <details>
        <summary>Rotate it</summary>
        <form class="stack" method="post" action={`${path}/rotate`}>
          <label>
            The one before signs as well for (hours)
            <input type="number" name="overlap_hours" min={0} max={168} value="24" />
          </label>
          <div class="actions">
            <button type="submit">Make a new secret</button>
            <span class="hint">It is shown once.</span>
          </div>
        </form>
      </details>
    </section>
  );
};
