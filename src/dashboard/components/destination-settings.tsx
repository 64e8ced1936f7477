/** The settings on a destination's page: its limits, its retry policy and its signing secret. */
import type { FC } from "hono/jsx";
import { previousSecrets } from "../../core/credentials.ts";
import { breakerSchema, limitsSchema } from "../../core/limits.ts";
import { retryPreviewOf } from "../../core/retry/policy.ts";
import { breakerOf, type Destination, limitsOf, ownBurstOf, retryPolicyOf } from "../../db/destinations.ts";
import { type Form, numberIn, untilOf } from "../format.ts";
import { summaryOf } from "../simulator/schedule-chart.tsx";

const limitFields = [
  ["max_concurrency", "Concurrency limit (attempts)"],
  ["rate_per_second", "Rate limit (attempts per second)"],
  ["rate_burst", "Burst (attempts)"],
  ["timeout_ms", "Timeout (ms)"],
] as const;

const breakerFields = [
  ["failure_ratio", "Opens at a failure ratio of (0.05 to 1)"],
  ["min_attempts", "Among at least (attempts)"],
  ["window_s", "Within (seconds)"],
  ["cooldown_s", "Cool-down (seconds)"],
  ["max_cooldown_s", "Maximum cool-down (seconds)"],
] as const;

/** The change that the form of the limits asks for, as the API takes it. */
export function limitsIn(form: Form) {
  const pick = (fields: typeof limitFields | typeof breakerFields) =>
    Object.fromEntries(fields.map(([name]) => [name, numberIn(form, name)]));
  return { ...pick(limitFields), breaker: pick(breakerFields) };
}

type LimitsProps = Readonly<{
  row: Destination;
  path: string;
  mayChange: boolean;
  /** What was submitted, when it was refused. */
  typed?: Form | undefined;
}>;

export const Limits: FC<LimitsProps> = ({ row, path, mayChange, typed }) => {
  const current = limitsOf(row);
  const values: Readonly<Record<string, number | string>> = {
    ...current,
    // A burst that follows from the rate stays empty. Otherwise saving another rate would make it fixed.
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
          {limitFields.map(([name, label]) => (
            <NumberField
              name={name}
              label={label}
              value={value(name)}
              placeholder={String(current[name])}
              range={limitsSchema.shape[name]}
            />
          ))}
        </fieldset>
        <details open={typed !== undefined}>
          <summary>Circuit breaker</summary>
          <fieldset class="fields" disabled={!mayChange}>
            {breakerFields.map(([name, label]) => (
              <NumberField name={name} label={label} value={value(name)} range={breakerSchema.shape[name]} />
            ))}
          </fieldset>
        </details>
        {mayChange && (
          <div class="actions">
            <button type="submit">Save limits</button>
            <span class="hint">Leave a field empty to use its default.</span>
          </div>
        )}
      </form>
    </section>
  );
};

type NumberFieldProps = Readonly<{
  name: string;
  label: string;
  value: string;
  /** What applies while the field is empty. */
  placeholder?: string;
  range: Readonly<{ minValue: number | null; maxValue: number | null }>;
}>;

const NumberField: FC<NumberFieldProps> = ({ name, label, value, placeholder, range }) => (
  <label>
    {label}
    <input
      type="number"
      name={name}
      value={value}
      placeholder={placeholder}
      step="any"
      min={range.minValue ?? undefined}
      max={range.maxValue ?? undefined}
    />
  </label>
);

/** Attempts that the summary looks ahead. */
const PREVIEWED = 200;

/** The policy in a sentence, with a link to the simulator, where others can be tried. */
export const RetryPolicySummary: FC<{ row: Destination }> = ({ row }) => {
  const policy = retryPolicyOf(row);
  return (
    <section aria-labelledby="retry-policy">
      <div class="head">
        <h2 id="retry-policy">Retry policy</h2>
      </div>
      <p class="summary">{summaryOf(policy, retryPreviewOf(policy, PREVIEWED))}</p>
      <a class="button" href={`/dashboard/simulator?destination=${row.id}`}>
        Open in the simulator
      </a>
    </section>
  );
};

/** By the number of replaced secrets: the current one is in use besides them. */
const numerals = ["One", "Two", "Three", "Four", "Five", "Six"];

/** Takes two clicks: the first one only opens the form. */
export const SecretRotation: FC<{ path: string; row: Destination; now: number }> = ({ path, row, now }) => {
  const replaced = previousSecrets(row.previousSecrets, now);
  const lastExpiresAt = Math.max(...replaced.map(({ expires_at }) => expires_at));
  return (
    <section aria-labelledby="secret-head">
      <div class="head">
        <h2 id="secret-head">Signing secret</h2>
      </div>
      {replaced.length > 0 && (
        <p>{`${numerals[replaced.length]} secrets are in use; the last of those that were replaced expires in ${untilOf(lastExpiresAt, now)}.`}</p>
      )}
      <details>
        <summary>Rotate secret</summary>
        <form class="stack" method="post" action={`${path}/rotate`}>
          <input type="hidden" name="secret_version" value={String(row.secretVersion)} autocomplete="off" />
          <label>
            Keep signing with the old secret too for (hours)
            <input type="number" name="overlap_hours" min={0} max={168} value="24" />
          </label>
          <div class="actions">
            <button type="submit">Create new secret</button>
            <span class="hint">The new secret is shown once.</span>
          </div>
        </form>
      </details>
    </section>
  );
};
