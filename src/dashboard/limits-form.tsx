/** A destination's limits, changed where they are read. */
import type { FC } from "hono/jsx";
import { breakerSchema, limitsSchema } from "../policy/limits.ts";
import { breakerOf, type Destination, limitsOf, ownBurstOf } from "../store/destination-settings.ts";
import type { Form } from "./form-fields.ts";

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
