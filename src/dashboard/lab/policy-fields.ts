/**
 * A retry policy as fields of a form, and back. Spans are typed as one says them ("90", "2 min", "3 d"); what
 * cannot be read as one goes on as it is, so that the schema says what it expected. Pure.
 */
import type { RetrySpec } from "../../policy/retry-spec.ts";
import { type Form, numberIn, textIn } from "../form-fields.ts";

/** The fields of the form, named as those of the API. */
export type PolicyFields = Readonly<Record<string, string>>;

const units = { s: 1, min: 60, h: 3600, d: 86_400 } as const;

/** Seconds of "30", "30 s", "2 min", "1.5 h" or "3 d"; else the text. */
export function secondsOf(text: string): number | string {
  const [, amount, unit = "s"] = /^(\d+(?:\.\d+)?)\s*(s|min|h|d)?$/.exec(text.trim()) ?? [];
  return amount === undefined ? text : Number(amount) * units[unit as keyof typeof units];
}

/** In the largest unit that leaves nothing over. */
export function spanText(seconds: number): string {
  const [unit, size] = Object.entries(units).findLast(([, size]) => seconds % size === 0) ?? ["s", 1];
  return `${seconds / size} ${unit}`;
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
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function jitterIn(form: Form): unknown {
  const jitter = textIn(form, "jitter");
  return jitter === "proportional" ? { proportional: numberIn(form, "proportional") } : jitter;
}

/** The fields that say what the spec says. */
export function fieldsOf(spec: RetrySpec): PolicyFields {
  const { preset = "breakwater", schedule, base, factor, cap, jitter, max_attempts, give_up_after } = spec;
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
  };
  const entries = Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}
