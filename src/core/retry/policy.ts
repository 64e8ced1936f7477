/**
 * A destination's retry policy: its JSON form (`retry`), and the resolved policy.
 *
 * The JSON is in seconds and snake_case, and nothing in it is required: omitted fields come from the preset, which is
 * `breakwater` unless named. An invalid policy is refused when it is set, with every fault named at once; a valid one
 * resolves to a policy that a transition can use without checking it again.
 */
import { optionalShape, type Shape, type ShapeFault, type ShapeType } from "../shape.ts";
import type { Delays } from "./backoff.ts";
import type { StatusRules } from "./classify.ts";
import { presetNames, presets } from "./presets.ts";
import { type RetryPolicy, retryAfterEffects } from "./transition.ts";

export type { RetryPolicy } from "./transition.ts";

const day = 24 * 60 * 60;

/** A whole number of something, at least one. */
function upTo(max: number, of: string, description?: string) {
  return {
    kind: "number",
    whole: true,
    of,
    min: 1,
    max,
    ...(description && { meta: { description } }),
  } as const;
}

const jitter = {
  kind: "either",
  of: [
    { kind: "choice", values: ["full", "equal", "decorrelated", "none"] },
    { kind: "object", fields: { proportional: { kind: "number", min: 0, max: 1 } } },
  ],
  expected: '"full", "equal", "decorrelated", "none" or {"proportional": 0 to 1}',
  meta: { description: "How a wait d is spread: full [0, d), equal [d/2, d), proportional d ± p·d." },
} as const satisfies Shape;

/** Why `on` cannot name this status; undefined when it can. */
function statusFault(status: number): string | undefined {
  if (status >= 200 && status < 300) return "a 2xx is always a success";
  if (status >= 300 && status < 400) return "a redirect is never followed and always ends the delivery";
  if (status === 410) return "410 always ends the delivery and pauses the destination";
  return status >= 400 && status < 600 ? undefined : `expected ${STATUS_EXPECTED}`;
}

const STATUS_EXPECTED = "a status from 400 to 599 but not 410";

const statuses = {
  kind: "list",
  of: {
    kind: "number",
    whole: true,
    expected: STATUS_EXPECTED,
    meta: { minimum: 400, maximum: 599 },
    faults(status: number) {
      const message = statusFault(status);
      return message === undefined ? [] : [{ path: [], message }];
    },
  },
  min: 1,
  max: 100,
  expected: "a list of 1 to 100 statuses",
  optional: true,
} as const satisfies Shape;

/** A status in both lists is an error, because neither choice is right. */
function inBoth({ retry, fail }: { retry?: unknown; fail?: unknown }): ShapeFault[] {
  if (!Array.isArray(retry) || !Array.isArray(fail)) return [];
  return fail.flatMap((status, i) =>
    retry.includes(status) ? [{ path: ["fail", i], message: `${status} is in retry as well` }] : [],
  );
}

/** A destination's `retry`. Its faults have the path of the field and a message that says what is expected. */
export const retryShape = {
  kind: "object",
  fields: {
    preset: optionalShape(
      { kind: "choice", values: presetNames },
      "The preset from which omitted fields are taken; breakwater by default.",
    ),
    schedule: optionalShape(
      {
        kind: "list",
        of: upTo(7 * day, "seconds"),
        min: 1,
        max: 50,
        expected: "a list of seconds",
        length: "1 to 50 waits",
      },
      "Seconds before attempts 2, 3, …; the last one repeats.",
    ),
    base: { ...upTo(7 * day, "seconds", "Seconds before attempt 2; needs factor and cap."), optional: true },
    factor: optionalShape(
      { kind: "number", min: 1, max: 10 },
      "What each wait is multiplied by for the next.",
    ),
    cap: { ...upTo(7 * day, "seconds", "The longest wait, in seconds; at least base."), optional: true },
    jitter: { ...jitter, optional: true },
    max_attempts: { ...upTo(100, "attempts", "Attempts in all, the first included."), optional: true },
    give_up_after: {
      ...upTo(30 * day, "seconds", "Seconds from a delivery's first attempt until it is given up."),
      optional: true,
    },
    expire_unattempted_after: {
      ...upTo(
        30 * day,
        "seconds",
        "Seconds that a delivery may wait for its first attempt, because of a pause, a hold or an open circuit; 14 days by default.",
      ),
      optional: true,
    },
    retry_after: optionalShape(
      { kind: "choice", values: retryAfterEffects },
      "The effect of a 429's Retry-After on the wait: `floor` waits for the longer of the two, `instead` waits only for the header's time. With a 503 it is always a floor.",
    ),
    on: optionalShape(
      { kind: "object", fields: { retry: statuses, fail: statuses }, faults: inBoth },
      "Statuses (400 to 599, but not 410) that are to be retried, or to end the delivery at once, whatever the preset says. A 2xx is always a success, a 3xx and 410 always end it.",
    ),
  },
  faults: contradictions,
  meta: { description: "When a delivery is tried again; fields override those of the preset." },
} as const satisfies Shape;

export type RetrySpec = ShapeType<typeof retryShape>;

/** The complete policy for a valid spec; the default policy without one. */
export function resolveRetry(spec: RetrySpec | undefined | null): RetryPolicy {
  const preset = presets[spec?.preset ?? "breakwater"];
  return {
    ...preset,
    delays: delaysOf(spec ?? {}) ?? preset.delays,
    jitter: spec?.jitter ?? preset.jitter,
    maxAttempts: spec?.max_attempts ?? preset.maxAttempts,
    giveUpAfterMs: msOf(spec?.give_up_after) ?? preset.giveUpAfterMs,
    expireUnattemptedAfterMs: msOf(spec?.expire_unattempted_after) ?? preset.expireUnattemptedAfterMs,
    retryAfter: spec?.retry_after ?? preset.retryAfter,
    rules: spec?.on ? withOverrides(preset.rules, spec.on) : preset.rules,
  };
}

function msOf(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}

/** A status that the owner wants retried is retried like any other: the preset's limit for it no longer applies. */
function withOverrides(rules: StatusRules, { retry = [], fail = [] }: NonNullable<RetrySpec["on"]>) {
  const limits = Object.entries(rules.attemptLimits).filter(
    ([cause]) => !retry.some((status) => cause === `http_${status}`),
  );
  return { ...rules, attemptLimits: Object.fromEntries(limits), overrides: { retry, fail } };
}

function delaysOf({ schedule, base, factor, cap }: RetrySpec): Delays | undefined {
  if (schedule !== undefined) return { schedule };
  if (base === undefined || factor === undefined || cap === undefined) return undefined;
  return { base, factor, cap };
}

/** Faults between fields, reported together with the faults of single fields. */
function contradictions(
  spec: {
    readonly [K in "base" | "factor" | "cap" | "schedule" | "max_attempts" | "give_up_after"]?: unknown;
  },
): ShapeFault[] {
  const faults: ShapeFault[] = [];
  const refuse = (field: keyof typeof spec, message: string) => faults.push({ path: [field], message });
  const missing = (["base", "factor", "cap"] as const).filter((field) => spec[field] === undefined);
  const growing = missing.length < 3;

  if (growing) for (const field of missing) refuse(field, "expected base, factor and cap together");
  if (growing && spec.schedule !== undefined) {
    refuse("schedule", "expected a schedule or base, factor and cap, not both");
  }
  if (typeof spec.base === "number" && typeof spec.cap === "number" && spec.cap < spec.base) {
    refuse("cap", "expected a cap of at least base");
  }
  const [firstWait] = Array.isArray(spec.schedule) ? spec.schedule : [spec.base];
  const limit = Number(spec.give_up_after);
  if (spec.max_attempts !== 1 && limit >= 1 && Number(firstWait) > limit) {
    refuse(
      "give_up_after",
      "expected no less than the first wait, or max_attempts 1: nothing would be retried",
    );
  }
  return faults;
}

/**
 * When a delivery is given up (epoch ms): counted from its first attempt or, before that, from when it was due.
 * @param liveUntil when the time to live of its event ends, epoch ms; undefined: it has none
 */
export function ageLimitOf(
  {
    giveUpAfterMs,
    expireUnattemptedAfterMs,
  }: Pick<RetryPolicy, "giveUpAfterMs" | "expireUnattemptedAfterMs">,
  firstAttemptAt: number | null | undefined,
  dueAt: number,
  liveUntil = Number.POSITIVE_INFINITY,
): number {
  const limit = firstAttemptAt == null ? dueAt + expireUnattemptedAfterMs : firstAttemptAt + giveUpAfterMs;
  return Math.min(limit, liveUntil);
}
