/**
 * The form of a retry policy. Empty fields use the preset's value. Durations are typed as people write them ("90",
 * "2 min", "3 d"); what cannot be parsed is passed on as it is, so that the API's schema says what it expected.
 */
import type { FC } from "hono/jsx";
import type { Delays } from "../../core/retry/backoff.ts";
import type { RetryPolicy, RetrySpec } from "../../core/retry/policy.ts";
import { presetNames, presets, spanText, unlimitedAttempts } from "../../core/retry/presets.ts";
import type { Destination } from "../../db/destinations.ts";
import { nameOf } from "../components/destination-table.tsx";
import { type Form, numberIn, textIn } from "../format.ts";
import { outages } from "./outages.tsx";

/** The form's fields, named like those of the API. */
export type PolicyFields = Readonly<Record<string, string>>;

export { spanText };

const units = { s: 1, min: 60, h: 3600, d: 86_400 } as const;

/** Seconds of "30", "30 s", "2 min", "1.5 h" or "3 d"; else the text. */
export function secondsOf(text: string): number | string {
  const [, amount, unit = "s"] = /^(\d+(?:\.\d+)?)\s*(s|min|h|d)?$/.exec(text.trim()) ?? [];
  return amount === undefined ? text : Number(amount) * units[unit as keyof typeof units];
}

/** The policy in the form, not validated yet. */
export function specIn(form: Form): Readonly<Record<string, unknown>> {
  const duration = (name: string) => {
    const text = textIn(form, name);
    return text === undefined ? undefined : secondsOf(text);
  };
  const schedule = textIn(form, "schedule")?.split(",").map(secondsOf);
  const given = {
    preset: textIn(form, "preset"),
    schedule,
    base: duration("base"),
    factor: numberIn(form, "factor") ?? undefined,
    cap: duration("cap"),
    jitter: jitterIn(form),
    max_attempts: numberIn(form, "max_attempts") ?? undefined,
    give_up_after: duration("give_up_after"),
    expire_unattempted_after: duration("expire_unattempted_after"),
    on: statusesIn(form),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** A status that is not a number is passed on as it is. */
function statusesIn(form: Form): unknown {
  const listed = (name: string) =>
    textIn(form, name)
      ?.split(",")
      .map((text) => (/^\s*\d+\s*$/.test(text) ? Number(text) : text));
  const [retry, fail] = [listed("on_retry"), listed("on_fail")];
  return retry || fail ? { ...(retry && { retry }), ...(fail && { fail }) } : undefined;
}

function jitterIn(form: Form): unknown {
  const jitter = textIn(form, "jitter");
  return jitter === "proportional" ? { proportional: numberIn(form, "proportional") } : jitter;
}

/** The fields of a policy: the inverse of `specIn`. */
export function fieldsOf(spec: RetrySpec): PolicyFields {
  const { preset = "breakwater", schedule, base, factor, cap, jitter, max_attempts, give_up_after } = spec;
  const { expire_unattempted_after, on } = spec;
  const given = {
    preset,
    schedule: schedule?.map(spanText).join(", "),
    base: base && spanText(base),
    factor: factor && String(factor),
    cap: cap && spanText(cap),
    jitter: typeof jitter === "object" ? "proportional" : jitter,
    proportional: typeof jitter === "object" ? String(jitter.proportional) : undefined,
    max_attempts: max_attempts && String(max_attempts),
    give_up_after: give_up_after && spanText(give_up_after),
    expire_unattempted_after: expire_unattempted_after && spanText(expire_unattempted_after),
    on_retry: on?.retry?.join(", "),
    on_fail: on?.fail?.join(", "),
  };
  const entries = Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}

export const PATH = "/dashboard/simulator";

type Props = Readonly<{
  fields: PolicyFields;
  outage: string;
  destinations: readonly Destination[];
  /** The destination whose limits are simulated. */
  chosen: Destination | undefined;
  mayChange: boolean;
}>;

const jitters = ["full", "equal", "decorrelated", "proportional", "none"] as const;

export const PolicyForm: FC<Props> = ({ fields, outage, destinations, chosen, mayChange }) => {
  const preset = presets[(fields.preset ?? "breakwater") as keyof typeof presets] ?? presets.breakwater;
  const own = presetTexts(preset);
  return (
    <form class="stack" method="get" action={PATH} data-preview>
      <div class="fields">
        <Choice name="preset" label="Preset" value={fields.preset} options={presetNames.map(same)} />
        <Choice
          name="outage"
          label="Simulated outage"
          value={outage}
          options={Object.entries(outages).map(([name, { title }]) => [name, title])}
        />
        <Choice
          name="destination"
          label="With the limits of"
          value={chosen?.id}
          options={[["", "a new destination"], ...destinations.map((row) => [row.id, nameOf(row)] as const)]}
        />
      </div>
      <fieldset class="fields">
        <legend>Delays: exponential, or a schedule</legend>
        <Text name="base" label="Base delay" hint={own.base} fields={fields} />
        <Text name="factor" label="Factor" hint={own.factor} fields={fields} />
        <Text name="cap" label="Maximum delay" hint={own.cap} fields={fields} />
        <Text name="schedule" label="Schedule; its last delay repeats" hint={own.schedule} fields={fields} />
      </fieldset>
      <fieldset class="fields">
        <legend>Jitter and limits</legend>
        <Choice
          name="jitter"
          label="Jitter"
          value={fields.jitter}
          options={[["", `preset: ${own.jitter}`], ...jitters.map(same)]}
        />
        <Text name="proportional" label="Proportion (0 to 1)" hint="" fields={fields} />
        <Text name="max_attempts" label="Maximum attempts" hint={own.attempts} fields={fields} />
        <Text
          name="give_up_after"
          label="Give up after"
          hint={spanText(preset.giveUpAfterMs / 1000)}
          fields={fields}
        />
        <Text
          name="expire_unattempted_after"
          label="First attempt within"
          hint={spanText(preset.expireUnattemptedAfterMs / 1000)}
          fields={fields}
        />
      </fieldset>
      <fieldset class="fields">
        <legend>HTTP statuses</legend>
        <Text name="on_retry" label="Always retry" hint="404, 422" fields={fields} />
        <Text name="on_fail" label="Never retry" hint="501, 505" fields={fields} />
      </fieldset>
      <div class="actions">
        <button type="submit" class="main">
          Simulate
        </button>
        {mayChange && chosen && (
          <button type="submit" formmethod="post">{`Apply to ${shortened(nameOf(chosen))}`}</button>
        )}
        <span class="hint">
          Durations such as 30 s, 2 min, 1 h or 3 d. Empty fields use the preset's value.
        </span>
      </div>
    </form>
  );
};

/** Short enough for a button. */
function shortened(name: string): string {
  return name.length > 32 ? `${name.slice(0, 31)}…` : name;
}

type Option = readonly [value: string, label: string];

function same(name: string): Option {
  return [name, name];
}

const Choice: FC<{ name: string; label: string; value: string | undefined; options: readonly Option[] }> = ({
  name,
  label,
  value,
  options,
}) => (
  <label>
    {label}
    <select name={name}>
      {options.map(([option, label]) => (
        <option value={option} selected={option === value}>
          {label}
        </option>
      ))}
    </select>
  </label>
);

const Text: FC<{ name: string; label: string; hint: string; fields: PolicyFields }> = ({
  name,
  label,
  hint,
  fields,
}) => (
  <label>
    {label}
    <input name={name} value={fields[name] ?? ""} placeholder={hint} maxlength={500} />
  </label>
);

/** The preset's values, as placeholders of the empty fields. */
function presetTexts({ delays, jitter, maxAttempts }: RetryPolicy) {
  return {
    ...delayTexts(delays),
    jitter: typeof jitter === "object" ? `± ${100 * jitter.proportional} %` : jitter,
    attempts: maxAttempts === unlimitedAttempts ? "until it gives up" : String(maxAttempts),
  };
}

function delayTexts(delays: Delays) {
  if ("schedule" in delays) {
    return { base: "", factor: "", cap: "", schedule: delays.schedule.map(spanText).join(", ") };
  }
  const { base, factor, cap } = delays;
  return { base: spanText(base), factor: `× ${factor}`, cap: spanText(cap), schedule: "" };
}
