/**
 * The conformance suite for receivers: its requests, the correct answers, and how to fix wrong ones.
 *
 * A receiver is judged by the status and the time of its answers, which are all that a sender sees. So a duplicate
 * passes when it is answered like its first request; whether it was also handled only once is for the receiver's own
 * tests.
 */
import { parsedJson } from "./json-value.ts";
import { type AttemptError, attemptErrors } from "./reasons.ts";
import { readAs, type Shape, type ShapeType } from "./shape.ts";
import { recipeOf, type SignatureForm } from "./signature-forms.ts";

/** The checks in the order of their requests; `prompt_answer` is judged by all that are to be accepted. */
const certificationChecks = [
  "valid",
  "duplicate",
  "rotated_secret",
  "large_body",
  "prompt_answer",
  "unsigned",
  "wrong_signature",
  "altered_body",
  "old_timestamp",
] as const;
export type CertificationCheck = (typeof certificationChecks)[number];

const certificationResults = ["passed", "failed", "not_applicable", "not_run"] as const;

const certificationFaults = [
  /** There was no answer; `error` says why. */
  "no_answer",
  /** It should have been 2xx. */
  "not_accepted",
  /** It should have been 4xx, and was 2xx. */
  "accepted",
  /** It should have been 4xx, and was something else, after which a sender tries again. */
  "not_refused",
  /** The answer came later than `limit_ms`. */
  "too_slow",
] as const;
type CertificationFault = (typeof certificationFaults)[number];

export type CertificationRequest = Readonly<{
  check: Exclude<CertificationCheck, "prompt_answer">;
  /** Whether the right answer is 2xx; otherwise it is 4xx. */
  isAccepted: boolean;
  /** It has the id of the first request. */
  isRepeat?: true;
  isLarge?: true;
  /** The body is changed after it was signed. */
  isAltered?: true;
  /** `both`: another secret signs before those of the destination, as the new one does during a rotation. */
  signedBy: "own" | "other" | "both" | "nobody";
  /** How long before the request it was signed. */
  ageMs: number;
}>;

/** Twice what receivers allow. */
const OLD_MS = 10 * 60_000;

const now = { ageMs: 0, signedBy: "own" } as const;

const requests: readonly CertificationRequest[] = [
  { check: "valid", isAccepted: true, ...now },
  { check: "duplicate", isAccepted: true, isRepeat: true, ...now },
  { check: "rotated_secret", isAccepted: true, ...now, signedBy: "both" },
  { check: "large_body", isAccepted: true, isLarge: true, ...now },
  { check: "unsigned", isAccepted: false, ...now, signedBy: "nobody" },
  { check: "wrong_signature", isAccepted: false, ...now, signedBy: "other" },
  { check: "altered_body", isAccepted: false, isAltered: true, ...now },
  { check: "old_timestamp", isAccepted: false, ...now, ageMs: OLD_MS },
];

/**
 * The requests for a receiver that may verify any of these forms. A check that one of the forms cannot pass is left
 * out: no signed timestamp, or room for only one signature.
 */
export function certificationRequests(forms: readonly SignatureForm[]): readonly CertificationRequest[] {
  const recipes = forms.map(recipeOf);
  const isTimed = recipes.every(({ content }) => content.includes("{timestamp}"));
  const takesSeveral = recipes.every(({ separator }) => separator !== undefined);
  return requests.filter(
    ({ ageMs, signedBy }) => (ageMs === 0 || isTimed) && (signedBy !== "both" || takesSeveral),
  );
}

export type CertificationAnswer = Readonly<{
  status?: number | undefined;
  /** Why the receiver itself did not answer. */
  error?: AttemptError | undefined;
  tookMs: number;
  /** The receiver has set the time of the next call. */
  asksForQuiet: boolean;
}>;

/** The time that the suite may take before its next request. */
const BUDGET_MS = 30_000;

/** Whether no more requests are made: the receiver does not answer or requests a hold, or the time is up. */
export function endsSuite(
  { check }: CertificationRequest,
  { error, status, asksForQuiet }: CertificationAnswer,
  elapsedMs: number,
): boolean {
  const isBusy = status === 429 || asksForQuiet;
  return isBusy || (check === "valid" && error !== undefined) || elapsedMs > BUDGET_MS;
}

const count = { kind: "number", whole: true, min: 0 } as const;

/** A check's result, as it is stored. */
const outcomeShape = {
  kind: "object",
  fields: {
    check: { kind: "choice", values: certificationChecks },
    result: { kind: "choice", values: certificationResults },
    fault: { kind: "choice", values: certificationFaults, optional: true },
    id: {
      kind: "text",
      max: 100,
      optional: true,
      meta: { description: "The id of the request.", example: "test_k5m2x9q4v7b1c" },
    },
    status: { ...count, optional: true },
    error: { kind: "choice", values: attemptErrors, optional: true },
    took_ms: { ...count, optional: true },
    limit_ms: { ...count, optional: true },
  },
} as const satisfies Shape;

export const certificationOutcomeFields = outcomeShape.fields;

export type CertificationOutcome = Readonly<ShapeType<typeof outcomeShape>>;

const storedShape = {
  kind: "object",
  fields: {
    /** Epoch ms. */
    at: count,
    checks: { kind: "list", of: outcomeShape, max: certificationChecks.length },
  },
} as const satisfies Shape;

export type Certification = Readonly<ShapeType<typeof storedShape>>;

/** The stored result; undefined without one, or after an edit by hand. */
export function certificationIn(stored: string | null): Certification | undefined {
  return stored === null ? undefined : readAs(storedShape, parsedJson(stored));
}

/** Whether everything that applies to the receiver has passed. */
export function isCertified({ checks }: Certification): boolean {
  return checks.every(({ result }) => result === "passed" || result === "not_applicable");
}

export type AnsweredRequest = Readonly<{
  request: CertificationRequest;
  id: string;
  answer: CertificationAnswer;
}>;

/** The results of the checks. @param timeoutMs of the destination: half of it is the most that an answer should take */
export function certificationOutcomes(
  planned: readonly CertificationRequest[],
  answered: readonly AnsweredRequest[],
  timeoutMs: number,
): CertificationOutcome[] {
  return certificationChecks.map((check): CertificationOutcome => {
    if (check === "prompt_answer") return promptness(answered, Math.floor(timeoutMs / 2));
    if (!planned.some((one) => one.check === check)) return { check, result: "not_applicable" };
    const made = answered.find(({ request }) => request.check === check);
    if (made === undefined) return { check, result: "not_run" };
    const { request, id, answer } = made;
    const { status, error, tookMs } = answer;
    const fault = faultIn(request, answer);
    return {
      check,
      ...resultOf(fault),
      id,
      ...(status !== undefined && { status }),
      ...(error !== undefined && { error }),
      took_ms: tookMs,
    };
  });
}

function resultOf(fault: CertificationFault | undefined) {
  return fault === undefined ? ({ result: "passed" } as const) : ({ result: "failed", fault } as const);
}

function faultIn(
  { isAccepted }: CertificationRequest,
  { status = 0, error }: CertificationAnswer,
): CertificationFault | undefined {
  if (error !== undefined) return "no_answer";
  const hundreds = Math.floor(status / 100);
  if (isAccepted) return hundreds === 2 ? undefined : "not_accepted";
  if (hundreds === 2) return "accepted";
  return hundreds === 4 && status !== 429 ? undefined : "not_refused";
}

/** The slowest answer to requests that are to be accepted. */
function promptness(answered: readonly AnsweredRequest[], limitMs: number): CertificationOutcome {
  const times = answered.flatMap(({ request, answer }) =>
    request.isAccepted && answer.error === undefined ? [answer.tookMs] : [],
  );
  if (times.length === 0) return { check: "prompt_answer", result: "not_run" };
  const slowest = Math.max(...times);
  const fault = slowest > limitMs ? "too_slow" : undefined;
  return { check: "prompt_answer", ...resultOf(fault), took_ms: slowest, limit_ms: limitMs };
}

/** Bytes of the large body: nearly as large as an event may be. */
const LARGE_BYTES = 250_000;

/**
 * The body of a request: an envelope with a number, spaces and escapes that JSON libraries write otherwise, so that a receiver
 * which verifies what it has parsed fails.
 * @param type of the event
 * @param timestamp in ISO 8601
 */
export function certificationBody(type: string, timestamp: string, isLarge: boolean): string {
  const head = `{"type":${JSON.stringify(type)},"timestamp":"${timestamp}","data":`;
  const filler = isLarge ? `, "filler": "${"x".repeat(LARGE_BYTES)}"` : "";
  return `${head}{ "message": "This is a test. Nothing has happened.", "total": 10.0, "note": "Gr\\u00fc\\u00dfe"${filler} }}`;
}

/** The body with a space more: the same JSON, in other bytes. */
export function altered(body: Uint8Array): Uint8Array<ArrayBuffer> {
  const changed = new Uint8Array(body.length + 1);
  const at = Math.min(1, body.length);
  changed.set(body.subarray(0, at));
  changed[at] = 0x20;
  changed.set(body.subarray(at), at + 1);
  return changed;
}

/** The texts about a suite's results, in one language. */
export type CertificationTexts = Readonly<{
  checks: Readonly<Record<CertificationCheck, string>>;
  results: Readonly<Record<(typeof certificationResults)[number], string>>;
  /** @param error the text if there was no answer */
  faults: Readonly<
    Record<CertificationFault, (facts: Readonly<{ status: string; error: string; limit: string }>) => string>
  >;
  fixes: Readonly<Record<CertificationCheck | "no_answer", string>>;
}>;

export const certificationTexts: CertificationTexts = {
  checks: {
    valid: "A valid request",
    duplicate: "The same id again",
    rotated_secret: "Signed with two secrets, as during a rotation",
    large_body: "A body of 250 KB",
    prompt_answer: "Time to answer",
    unsigned: "Without a signature",
    wrong_signature: "Signed with another secret",
    altered_body: "Body changed after signing",
    old_timestamp: "Signed ten minutes ago",
  },
  results: { passed: "Passed", failed: "Failed", not_applicable: "Not applicable", not_run: "Not run" },
  faults: {
    no_answer: ({ error }) => `There was no answer: ${error}.`,
    not_accepted: ({ status }) => `The answer was ${status}; expected 2xx.`,
    accepted: ({ status }) => `It was accepted with ${status}; expected 400 or 401.`,
    not_refused: ({ status }) => `The answer was ${status}; expected 400 or 401.`,
    too_slow: ({ limit }) => `An answer took more than ${limit}, half of the endpoint's timeout.`,
  },
  fixes: {
    no_answer: "Make sure that the endpoint can be reached and answers every request with a status.",
    valid:
      "Verify the raw bytes of the body with the endpoint's current secret, and answer 2xx, whatever the event's type.",
    duplicate:
      "Answer an id that you have already handled with 2xx, and do nothing else: after any other status the event is sent again.",
    rotated_secret: "Accept a request if any of the signatures in its header matches.",
    large_body: "Raise the limits of server, framework and proxy: an event may have 256 KB.",
    prompt_answer: "Store the event, answer 2xx, and process it afterwards.",
    unsigned: "Refuse a request without a signature with 401 before you read anything else.",
    wrong_signature:
      "Compute the signature with the secret, compare it in constant time, and refuse others with 401.",
    altered_body: "Verify the raw bytes of the body, not JSON that was parsed and written again.",
    old_timestamp: "Refuse a timestamp that differs from your clock by more than five minutes with 401.",
  },
};

/** A failed check in words: its reason, and how to fix it; undefined for one that did not fail. */
export function explainedFault(
  { checks: _, ...texts }: CertificationTexts,
  { check, fault, status, error }: CertificationOutcome,
  { limit, errorText }: Readonly<{ limit: string; errorText: string }>,
): Readonly<{ reason: string; fix: string }> | undefined {
  if (fault === undefined) return undefined;
  const facts = { status: String(status ?? ""), error: errorText || (error ?? ""), limit };
  return {
    reason: texts.faults[fault](facts),
    fix: texts.fixes[fault === "no_answer" ? "no_answer" : check],
  };
}
