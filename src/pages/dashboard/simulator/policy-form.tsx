/**
 * The form of a retry policy. Empty fields use the preset's value. Durations are typed as people write them ("90", "2
 * min", "3 d"); other text is passed on unchanged, so that the API's schema reports what it expected.
 */
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import type { Delays } from "../../../core/retry/backoff.ts";
import type { RetryPolicy, RetrySpec } from "../../../core/retry/policy.ts";
import { spanText, spanUnits } from "../../../core/retry/policy-table.ts";
import { presetNames, presets, unlimitedAttempts } from "../../../core/retry/presets.ts";
import { retryAfterEffects } from "../../../core/retry/transition.ts";
import type { Destination } from "../../../store/destination.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { FieldForm, formState, Input, useForm, valueIn } from "../../ui/fields.tsx";
import { destinationLabels, given, type Option } from "../../ui/form-fields.ts";
import { type Form, numberIn, textIn } from "../../ui/format.ts";
import { outages } from "./outages.tsx";

/** The form's fields, named like those of the API. */
export type PolicyFields = Readonly<Record<string, string>>;

export { spanText };

/** Seconds of "30", "30 s", "2 min", "1.5 h" or "3 d"; else the text. */
export function secondsOf(text: string): number | string {
  const [, amount, unit = "s"] = /^(\d+(?:\.\d+)?)\s*(s|min|h|d)?$/.exec(text.trim()) ?? [];
  return amount === undefined ? text : Number(amount) * spanUnits[unit as keyof typeof spanUnits];
}

/** The fields that are a duration, a number or a text each. */
const durations = ["base", "cap", "give_up_after", "expire_unattempted_after"] as const;
const numbers = ["factor", "max_attempts"] as const;
const texts = ["preset", "retry_after"] as const;

/** The policy in the form, not validated yet. */
export function specIn(form: Form): Readonly<Record<string, unknown>> {
  const duration = (name: string) => {
    const text = textIn(form, name);
    return text === undefined ? undefined : secondsOf(text);
  };
  return given<unknown>([
    ...texts.map((name) => [name, textIn(form, name)] as const),
    ...durations.map((name) => [name, duration(name)] as const),
    ...numbers.map((name) => [name, numberIn(form, name)] as const),
    ["schedule", textIn(form, "schedule")?.split(",").map(secondsOf)],
    ["jitter", jitterIn(form)],
    ["on", statusesIn(form)],
  ]);
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
export function policyFieldsOf({ preset = "breakwater", ...rest }: RetrySpec): PolicyFields {
  const spec = { preset, ...rest };
  const { schedule, jitter, on } = spec;
  return given<string | undefined>([
    ...durations.map((name) => [name, spec[name] === undefined ? undefined : spanText(spec[name])] as const),
    ...[...numbers, ...texts].map((name) => [name, spec[name]?.toString()] as const),
    ["schedule", schedule?.map(spanText).join(", ")],
    ["jitter", typeof jitter === "object" ? "proportional" : jitter],
    ["proportional", typeof jitter === "object" ? String(jitter.proportional) : undefined],
    ["on_retry", on?.retry?.join(", ")],
    ["on_fail", on?.fail?.join(", ")],
  ]);
}

export const PATH = "/dashboard/simulator";

type Props = Readonly<{
  fields: PolicyFields;
  outage: string;
  destinations: readonly Destination[];
  /** The destination whose limits are simulated. */
  chosen: Destination | undefined;
  mayChange: boolean;
  refused: Refused | undefined;
}>;

const jitters = ["full", "equal", "decorrelated", "proportional", "none"] as const;

const simulatorFields = {
  ...destinationLabels,
  outage: ["outage", "Simulated outage"],
  destination: ["destination", "With the limits of"],
} as const;

export const PolicyForm: FC<Props> = ({ fields, outage, destinations, chosen, mayChange, refused }) => {
  const values = { ...fields, outage, destination: chosen?.id };
  const form = formState(values, simulatorFields, refused);
  return (
    <FieldForm
      method="get"
      form={form}
      action={PATH}
      data-preview=""
      submit="Simulate"
      aside={
        mayChange &&
        chosen && <button type="submit" formmethod="post">{`Apply to ${shortened(nameOf(chosen))}`}</button>
      }
      hint={DURATIONS}
    >
      <div class="fields">
        <Input name="preset" options={presetNames.map(same)} />
        <Input name="outage" options={Object.entries(outages).map(([name, { title }]) => [name, title])} />
        <Input
          name="destination"
          options={[["", "a new destination"], ...destinations.map((row) => [row.id, nameOf(row)] as const)]}
        />
      </div>
      <PolicyFieldsets />
    </FieldForm>
  );
};

export const DURATIONS = "Durations such as 30 s, 2 min, 1 h or 3 d. Empty fields use the preset's value.";

/** The presets to choose from if a destination may have none. */
export const presetChoices: readonly Option[] = [["", "default: breakwater"], ...presetNames.map(same)];

/** The fields of a policy except its preset. */
export const PolicyFieldsets: FC = () => {
  const form = useForm();
  const preset = presets[presetNames.find((name) => name === valueIn(form, "preset")) ?? "breakwater"];
  const own = presetTexts(preset);
  const text = (name: string, placeholder: string) => (
    <Input name={name} placeholder={placeholder} maxlength={500} />
  );
  return (
    <>
      <fieldset class="fields">
        <legend>Delays: exponential, or a schedule</legend>
        {text("base", own.base)}
        {text("factor", own.factor)}
        {text("cap", own.cap)}
        {text("schedule", own.schedule)}
      </fieldset>
      <fieldset class="fields">
        <legend>Jitter and limits</legend>
        <Input name="jitter" options={[["", `preset: ${own.jitter}`], ...jitters.map(same)]} />
        {text("proportional", "")}
        {text("max_attempts", own.attempts)}
        {text("give_up_after", spanText(preset.giveUpAfterMs / 1000))}
        {text("expire_unattempted_after", spanText(preset.expireUnattemptedAfterMs / 1000))}
        <Input
          name="retry_after"
          options={[["", `preset: ${preset.retryAfter}`], ...retryAfterEffects.map(same)]}
        />
      </fieldset>
      <fieldset class="fields">
        <legend>HTTP statuses</legend>
        {text("on_retry", "404, 422")}
        {text("on_fail", "501, 505")}
      </fieldset>
    </>
  );
};

/** Short enough for a button. */
function shortened(name: string): string {
  return name.length > 32 ? `${name.slice(0, 31)}…` : name;
}

function same(name: string): Option {
  return [name, name];
}

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
