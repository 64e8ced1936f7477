/** From what a form sends to what the API takes. Nothing is judged here: that is for the API's own schemas. */
import type { FC } from "hono/jsx";
import { previousSecrets } from "../../core/credentials.ts";
import { breakerSchema, limitsSchema } from "../../core/limits.ts";
import { breakerOf, type Destination, limitsOf, ownBurstOf } from "../../db/destinations.ts";
import { untilOf } from "../format.ts";

export type Form = Readonly<Record<string, unknown>>;

/** The text of a field, or undefined when it is empty or missing. */
export function textIn(form: Form, name: string): string | undefined {
  const value = form[name];
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

/** A number, null (the default) for an empty field, and the text itself when it is none: the API names it. */
export function numberIn(form: Form, name: string): number | string | null {
  const text = textIn(form, name);
  if (text === undefined) return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}

/** The words of a field, however they are separated; null when there are none. */
export function listIn(form: Form, name: string): readonly string[] | null {
  const words = (textIn(form, name) ?? "").split(/[\s,]+/).filter((word) => word !== "");
  return words.length > 0 ? words : null;
}

// §§ A destination's limits, changed where they are read.

export const limits = [
  ["max_concurrency", "At once, at most", "attempts"],
  ["rate_per_second", "A second, at most", "attempts"],
  ["rate_burst", "After a quiet time", "attempts at once"],
  ["timeout_ms", "One attempt may take", "ms"],
] as const;

export const breaker = [
  ["failure_ratio", "Opens at failures of", "0.05 to 1"],
  ["min_attempts", "of at least", "attempts"],
  ["window_s", "within", "seconds"],
  ["cooldown_s", "Stays open for", "seconds"],
  ["max_cooldown_s", "and at most for", "seconds"],
] as const;

type Props = Readonly<{ row: Destination; path: string; mayChange: boolean; typed?: Form | undefined }>;

export const Limits: FC<Props> = ({ row, path, mayChange, typed }) => {
  const counts = limitsOf(row);
  // One that follows from the rate stays empty, or saving another rate would keep it.
  const values: Readonly<Record<string, number | string>> = {
    ...counts,
    rate_burst: ownBurstOf(row) ?? "",
    ...breakerOf(row),
  };
  const value = (name: string) => String(typed?.[name] ?? values[name]);
  return (
    <section aria-labelledby="limits">
      <div class="head">
        <h2 id="limits">Limits</h2>
      </div>
      <form class="stack" method="post" action={`${path}/limits`}>
        <fieldset class="fields" disabled={!mayChange}>
          {limits.map(([name, label, unit]) => (
            <NumberField
              name={name}
              label={label}
              unit={unit}
              value={value(name)}
              otherwise={counts[name]}
              range={rangeOf(name)}
            />
          ))}
        </fieldset>
        <details open={typed !== undefined}>
          <summary>Circuit breaker</summary>
          <fieldset class="fields" disabled={!mayChange}>
            {breaker.map(([name, label, unit]) => (
              <NumberField
                name={name}
                label={label}
                unit={unit}
                value={value(name)}
                range={breakerRange(name)}
              />
            ))}
          </fieldset>
        </details>
        {mayChange && (
          <div class="actions">
            <button type="submit">Save limits</button>
            <span class="hint">Empty means the default.</span>
          </div>
        )}
      </form>
    </section>
  );
};

type Range = Readonly<{ min: number | null; max: number | null }>;

function rangeOf(name: (typeof limits)[number][0]): Range {
  const { minValue, maxValue } = limitsSchema.shape[name];
  return { min: minValue, max: maxValue };
}

function breakerRange(name: (typeof breaker)[number][0]): Range {
  const { minValue, maxValue } = breakerSchema.shape[name];
  return { min: minValue, max: maxValue };
}

type NumberProps = Readonly<{
  name: string;
  label: string;
  unit: string;
  value: string;
  /** What counts while it is empty. */
  otherwise?: number;
  range: Range;
}>;

const NumberField: FC<NumberProps> = ({ name, label, unit, value, otherwise, range }) => (
  <label>
    {`${label} (${unit})`}
    <input
      type="number"
      name={name}
      value={value}
      placeholder={otherwise === undefined ? undefined : String(otherwise)}
      step="any"
      min={range.min ?? undefined}
      max={range.max ?? undefined}
    />
  </label>
);

// §§ A new signing secret, asked for twice: the first press only opens the second.

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
