/** A new signing secret, asked for twice: the first press only opens the second. */
import type { FC } from "hono/jsx";
import { previousSecrets } from "../policy/previous-secrets.ts";
import type { Destination } from "../store/destination-settings.ts";
import { untilOf } from "./figures.ts";

/** By how many were replaced: the current one signs beside them. */
const numerals = ["One", "Two", "Three", "Four", "Five", "Six"];

export const Rotation: FC<{ path: string; row: Destination; now: number }> = ({ path, row, now }) => {
  const replaced = previousSecrets(row.previousSecrets, now);
  const until = Math.max(...replaced.map(({ expires_at: at }) => at));
  return (
    <section aria-labelledby="secret-head">
      <div class="head">
        <h2 id="secret-head">Signing secret</h2>
      </div>
      {replaced.length > 0 && (
        <p>{`${numerals[replaced.length]} secrets sign at the moment; the last of those that were replaced stops in ${untilOf(until, now)}.`}</p>
      )}
      <details>
        <summary>Rotate it</summary>
        <form class="stack" method="post" action={`${path}/rotate`}>
          <input type="hidden" name="secret_version" value={String(row.secretVersion)} autocomplete="off" />
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
