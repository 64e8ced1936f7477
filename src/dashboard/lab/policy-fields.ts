/**
 * A retry policy as fields of a form, and back. Spans are typed as one says them ("90", "2 min", "3 d"); what
 * cannot be read as one goes on as it is, so that the schema says what it expected. Pure.
 */
import { spanText } from "../../policy/policy-table.ts";
import type { RetrySpec } from "../../policy/retry-spec.ts";
import { type Form, numberIn, textIn } from "../form-fields.ts";

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
