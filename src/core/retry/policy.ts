/**
 * A destination's retry policy: its JSON form (`retry`), what that resolves to, and a preview of what it does.
 *
 * The JSON is in seconds and snake_case, and nothing in it is required: what is left out comes from the preset, which
 * is `breakwater` unless named. An invalid policy is refused when it is set, with every fault named at once; a valid
 * one resolves to a policy that a transition can use without checking it again.
 */
import { z } from "zod";
import type { Delays } from "./backoff.ts";
import type { StatusRules } from "./classify.ts";
import { presetNames, presets } from "./presets.ts";
import { type RetryPolicy, retryAfterEffects, type Transition, transition } from "./transition.ts";

export type { RetryPolicy } from "./transition.ts";

const day = 24 * 60 * 60;

/** A number. Every error, of type or of range, states the whole expectation. */
function between(min: number, max: number) {
  const error = `expected a number from ${min} to ${max}`;
  return z.number({ error }).min(min, { error }).max(max, { error });
}

/** The same for a whole number of something, at least one. */
function upTo(max: number, what: string) {
  const error = `expected a whole number of ${what} from 1 to ${max}`;
  return z.int({ error }).min(1, { error }).max(max, { error });
}

/** The error for a value that is not an object, or that has unknown fields. */
function onlyFields(...fields: readonly string[]) {
  const expectation = `expected an object of ${fields.join(", ")}`;
  return (issue: z.core.$ZodRawIssue) =>
    issue.code === "unrecognized_keys" ? `unknown ${issue.keys.join(", ")}: ${expectation}` : expectation;
}

const scheduleLength = { error: "expected 1 to 50 waits" };

const jitter = z.union(
  [
    z.enum(["full", "equal", "decorrelated", "none"]),
    z.strictObject({ proportional: between(0, 1) }, { error: onlyFields("proportional") }),
  ],
  { error: 'expected "full", "equal", "decorrelated", "none" or {"proportional": 0 to 1}' },
);

/** Why `on` cannot name this status; undefined when it can. */
function statusFault(status: number): string | undefined {
  if (status >= 200 && status < 300) return "a 2xx is always a success";
  if (status >= 300 && status < 400) return "a redirect is never followed and always ends the delivery";
  if (status === 410) return "410 always ends the delivery and pauses the destination";
  return status >= 400 && status < 600 ? undefined : STATUS_EXPECTED;
}

const STATUS_EXPECTED = "expected a status from 400 to 599 but not 410";
const STATUSES_EXPECTED = { error: "expected a list of 1 to 100 statuses" };

const status = z
  .int({ error: STATUS_EXPECTED })
  .check((ctx) => {
    const fault = statusFault(ctx.value);
    if (fault !== undefined) ctx.issues.push({ code: "custom", message: fault, input: ctx.value });
  })
  .meta({ minimum: 400, maximum: 599 });

const statuses = z.array(status, STATUSES_EXPECTED).min(1, STATUSES_EXPECTED).max(100, STATUSES_EXPECTED);

const onStatuses = z
  .strictObject(
    { retry: statuses.optional(), fail: statuses.optional() },
    { error: onlyFields("retry", "fail") },
  )
  .check(z.superRefine(refuseBoth, { when: ({ value }) => typeof value === "object" && value !== null }));

/** A status in both lists is an error: we must not choose one of them. */
function refuseBoth({ retry, fail }: { retry?: unknown; fail?: unknown }, ctx: z.core.$RefinementCtx): void {
  if (!Array.isArray(retry) || !Array.isArray(fail)) return;
  for (const [i, status] of fail.entries()) {
    if (retry.includes(status))
      ctx.addIssue({ code: "custom", path: ["fail", i], message: `${status} is in retry as well` });
  }
}

const fields = {
  preset: z
    .enum(presetNames, { error: `expected one of ${presetNames.join(", ")}` })
    .meta({ description: "The policy that everything left out is taken from; breakwater by default." }),
  schedule: z
    .array(upTo(7 * day, "seconds"), { error: "expected a list of seconds" })
    .min(1, scheduleLength)
    .max(50, scheduleLength)
    .meta({ description: "Seconds before attempts 2, 3, …; the last one repeats." }),
  base: upTo(7 * day, "seconds").meta({ description: "Seconds before attempt 2; needs factor and cap." }),
  factor: between(1, 10).meta({ description: "What each wait is multiplied by for the next." }),
  cap: upTo(7 * day, "seconds").meta({ description: "The longest wait, in seconds; at least base." }),
  jitter: jitter.meta({
    description: "How a wait d is spread: full [0, d), equal [d/2, d), proportional d ± p·d.",
  }),
  max_attempts: upTo(100, "attempts").meta({ description: "Attempts in all, the first included." }),
  give_up_after: upTo(30 * day, "seconds").meta({
    description: "Seconds from a delivery's first attempt until it is given up.",
  }),
  expire_unattempted_after: upTo(30 * day, "seconds").meta({
    description:
      "Seconds that a delivery may wait for its first attempt, because of a pause, a hold or an open circuit; 14 days by default.",
  }),
  retry_after: z.enum(retryAfterEffects, { error: `expected one of ${retryAfterEffects.join(", ")}` }).meta({
    description:
      "What a Retry-After of a 429 does to the wait: `floor` waits for the longer of the two, `instead` for the header's time alone. With a 503 it is always a floor.",
  }),
  on: onStatuses.optional().meta({
    description:
      "Statuses (400 to 599, but not 410) that are to be retried, or to end the delivery at once, whatever the preset says. A 2xx is always a success, a 3xx and 410 always end it.",
  }),
};

const shape = z.strictObject(fields, { error: onlyFields(...Object.keys(fields)) }).partial();

export type RetrySpec = z.infer<typeof shape>;

/** A destination's `retry`. Its issues have the path of the field and a message that says what is expected. */
export const retrySpec = shape
  .check(
    z.superRefine(refuseContradictions, { when: ({ value }) => typeof value === "object" && value !== null }),
  )
  .meta({ description: "When a delivery is tried again; fields override those of the preset." });

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
function withOverrides(
  rules: StatusRules,
  { retry = [], fail = [] }: NonNullable<RetrySpec["on"]>,
): StatusRules {
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
function refuseContradictions(spec: RetrySpec, ctx: z.core.$RefinementCtx): void {
  const refuse = (field: keyof RetrySpec, message: string) =>
    ctx.addIssue({ code: "custom", path: [field], message });
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

/** One attempt of a delivery that never succeeds, in ms after the first. */
export type PreviewedAttempt = Readonly<{
  /** When it is made if every wait so far was in the middle of its jitter. */
  at: number;
  /** The earliest and the latest after those waits. */
  from: number;
  to: number;
}>;

export type RetryPreview = Readonly<{
  /** The first included, at 0. */
  attempts: readonly PreviewedAttempt[];
  /** Why there is no further one; `beyond`: no more were asked for. */
  ends: "exhausted" | "expired" | "beyond";
}>;

const FAILED = { kind: "response", status: 500 } as const;
const MIDDLE = 0.5;
const HIGHEST = 1 - Number.EPSILON;

/**
 * The attempts of a delivery that never succeeds, played by the transition itself.
 * @param most attempts to preview; a policy that only its age limit ends has more
 */
export function retryPreviewOf(policy: RetryPolicy, most: number): RetryPreview {
  const attempts: PreviewedAttempt[] = [{ at: 0, from: 0, to: 0 }];
  let waitedMs: number | undefined;
  for (let last = attempts[0]; last && attempts.length < most; last = attempts.at(-1)) {
    const { at } = last;
    const next = (random: number) => after(attempts.length, waitedMs, policy, at, random);
    const middle = next(MIDDLE);
    if (middle.kind !== "retry") return { attempts, ends: endOf(middle) };
    attempts.push({ at: middle.at, from: timeOf(next(0), policy), to: timeOf(next(HIGHEST), policy) });
    waitedMs = middle.at - at;
  }
  return { attempts, ends: attempts.length >= policy.maxAttempts ? "exhausted" : "beyond" };
}

function after(
  attempts: number,
  previousDelayMs: number | undefined,
  policy: RetryPolicy,
  at: number,
  random: number,
): Transition {
  const previous = previousDelayMs === undefined ? {} : { previousDelayMs };
  return transition(FAILED, { attempts, giveUpAt: policy.giveUpAfterMs, ...previous }, policy, at, random);
}

/** A time after the age limit counts as the age limit. */
function timeOf(next: Transition, policy: RetryPolicy): number {
  return next.kind === "retry" ? next.at : policy.giveUpAfterMs;
}

function endOf(end: Transition): "exhausted" | "expired" {
  return end.kind === "dead" && end.reason === "exhausted" ? "exhausted" : "expired";
}
