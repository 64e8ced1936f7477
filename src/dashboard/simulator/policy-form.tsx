/** Choosing a policy, and editing it. What is left empty is as the preset has it. */
import type { FC } from "hono/jsx";
import type { Delays } from "../../core/retry/backoff.ts";
import type { RetryPolicy, RetrySpec } from "../../core/retry/policy.ts";
import { presetNames, presets, spanText, unlimitedAttempts } from "../../core/retry/presets.ts";
import type { Destination } from "../../db/destinations.ts";
import { nameOf } from "../components/destination-table.tsx";
import { type Form, numberIn, textIn } from "../components/forms.tsx";
import { outages } from "./outages.tsx";

// §§ A retry policy as fields of a form, and back. Spans are typed as one says them ("90", "2 min", "3 d"); what
// cannot be read as one goes on as it is, so that the schema says what it expected. Pure.

/** The fields of the form, named as those of the API. */
export type PolicyFields = Readonly<Record<string, string>>;

export { spanText };

const units = { s: 1, min: 60, h: 3600, d: 86_400 } as const;

/** Seconds of "30", "30 s", "2 min", "1.5 h" or "3 d"; else the text. */
export function secondsOf(text: string): number | string {
  const [, amount, unit = "s"] = /^(\d+(?:\.\d+)?)\s*(s|min|h|d)?$/.exec(text.trim()) ?? [];
  return amount === undefined ? text : Number(amount) * units[unit as keyof typeof units];
}

/** What the form says, for the schema to judge. */
export function specIn(form: Form): Readonly<Record<string, unknown>> {
  const span = (name: string) => {
    const text = textIn(form, name);
    return text === undefined ? undefined : secondsOf(text);
  };
  const schedule = textIn(form, "schedule")?.split(",").map(secondsOf);
  const given = {
    preset: textIn(form, "preset"),
    schedule,
    base: span("base"),
    factor: numberIn(form, "factor") ?? undefined,
    cap: span("cap"),
    jitter: jitterIn(form),
    max_attempts: numberIn(form, "max_attempts") ?? undefined,
    give_up_after: span("give_up_after"),
    expire_unattempted_after: span("expire_unattempted_after"),
    on: statusesIn(form),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** What is no number stays as it is, for the schema to name. */
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

/** The fields that say what the spec says. */
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

export const PATH = "/dashboard/lab";

type Props = Readonly<{
  fields: PolicyFields;
  outage: string;
  destinations: readonly Destination[];
  /** The one whose limits are simulated. */
  chosen: Destination | undefined;
  mayChange: boolean;
}>;

const jitters = ["full", "equal", "decorrelated", "proportional", "none"] as const;

export const PolicyForm: FC<Props> = ({ fields, outage, destinations, chosen, mayChange }) => {
  const preset = presets[(fields.preset ?? "breakwater") as keyof typeof presets] ?? presets.breakwater;
  const own = ownWords(preset);
  return (
    <form class="stack" method="get" action={PATH} data-preview>
      <div class="fields">
        <Choice name="preset" label="Preset" value={fields.preset} options={presetNames.map(same)} />
        <Choice
          name="outage"
          label="Simulated outage"
          value={outage}
          options={Object.entries(outages).map(([name, { says }]) => [name, says])}
        />
        <Choice
          name="destination"
          label="With the limits of"
          value={chosen?.id}
          options={[["", "a new destination"], ...destinations.map((row) => [row.id, nameOf(row)] as const)]}
        />
      </div>
      <fieldset class="fields">
        <legend>Waits: growing, or a list</legend>
        <Text name="base" label="First wait" hint={own.base} fields={fields} />
        <Text name="factor" label="Each longer by" hint={own.factor} fields={fields} />
        <Text name="cap" label="Longest wait" hint={own.cap} fields={fields} />
        <Text name="schedule" label="Or this list; the last repeats" hint={own.schedule} fields={fields} />
      </fieldset>
      <fieldset class="fields">
        <legend>Jitter and limits</legend>
        <Choice
          name="jitter"
          label="Jitter"
          value={fields.jitter}
          options={[["", `its own: ${own.jitter}`], ...jitters.map(same)]}
        />
        <Text name="proportional" label="Proportion, 0 to 1" hint="" fields={fields} />
        <Text name="max_attempts" label="Attempts, at most" hint={own.attempts} fields={fields} />
        <Text
          name="give_up_after"
          label="Give up after"
          hint={spanText(preset.giveUpAfterMs / 1000)}
          fields={fields}
        />
        <Text
          name="expire_unattempted_after"
          label="Wait for a first attempt"
          hint={spanText(preset.expireUnattemptedAfterMs / 1000)}
          fields={fields}
        />
      </fieldset>
      <fieldset class="fields">
        <legend>Single statuses</legend>
        <Text name="on_retry" label="Always retried" hint="404, 422" fields={fields} />
        <Text name="on_fail" label="End the delivery" hint="501, 505" fields={fields} />
      </fieldset>
      <div class="actions">
        <button type="submit" class="main">
          Simulate
        </button>
        {mayChange && chosen && (
          <button type="submit" formmethod="post">{`Apply to ${cut(nameOf(chosen))}`}</button>
        )}
        <span class="hint">Spans as 30 s, 2 min, 1 h, 3 d. Empty is as the preset has it.</span>
      </div>
    </form>
  );
};

/** Short enough for a button. */
function cut(name: string): string {
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
      {options.map(([option, says]) => (
        <option value={option} selected={option === value}>
          {says}
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

/** What the preset has, for the empty fields. */
function ownWords({ delays, jitter, maxAttempts }: RetryPolicy) {
  return {
    ...delayWords(delays),
    jitter: typeof jitter === "object" ? `± ${100 * jitter.proportional} %` : jitter,
    attempts: maxAttempts === unlimitedAttempts ? "until it gives up" : String(maxAttempts),
  };
}

function delayWords(delays: Delays) {
  if ("schedule" in delays) {
    return { base: "", factor: "", cap: "", schedule: delays.schedule.map(spanText).join(", ") };
  }
  const { base, factor, cap } = delays;
  return { base: spanText(base), factor: `× ${factor}`, cap: spanText(cap), schedule: "" };
}
