import { expect, test } from "vitest";
import {
  altered,
  type CertificationRequest,
  certificationBody,
  certificationIn,
  certificationOutcomes,
  certificationRequests,
  certificationTexts,
  endsSuite,
  explainedFault,
  isCertified,
} from "../../src/core/certification.ts";
import { de } from "../../src/pages/portal/texts/de.ts";

const standard = certificationRequests([{ form: "standard" }]);
const named = (check: string) => standard.find((one) => one.check === check) as CertificationRequest;
const answer = (fields: object) => ({ tookMs: 10, asksForQuiet: false, ...fields });

/** The outcome of one check whose request is answered like this. */
function outcomeOf(check: string, fields: object, timeoutMs = 1_000) {
  const answered = [{ request: named(check), id: "test_1", answer: answer(fields) }];
  return certificationOutcomes(standard, answered, timeoutMs);
}

test.each<[string, object, string | undefined]>([
  ["valid", { status: 204 }, undefined],
  ["valid", { status: 301 }, "not_accepted"],
  ["valid", { status: 401 }, "not_accepted"],
  ["valid", { error: "tls", status: 525 }, "no_answer"],
  ["duplicate", { status: 409 }, "not_accepted"],
  ["old_timestamp", { status: 400 }, undefined],
  ["old_timestamp", { status: 499 }, undefined],
  ["old_timestamp", { status: 200 }, "accepted"],
  ["old_timestamp", { status: 302 }, "not_refused"],
  ["old_timestamp", { status: 500 }, "not_refused"],
  ["old_timestamp", { status: 429 }, "not_refused"],
  ["unsigned", { error: "connection_lost" }, "no_answer"],
])("the check %s judges the answer %o as %s", (check, fields, fault) => {
  const outcome = outcomeOf(check, fields).find((one) => one.check === check);
  expect(outcome).toMatchObject({ id: "test_1", took_ms: 10, result: fault ? "failed" : "passed" });
  expect(outcome?.fault).toBe(fault);
});

test("the answer to a request that is to be accepted must come within half of the timeout", () => {
  const promptness = (check: string, tookMs: number) =>
    outcomeOf(check, { status: 204, tookMs }).find((one) => one.check === "prompt_answer");
  expect(promptness("large_body", 500)).toMatchObject({ result: "passed", took_ms: 500, limit_ms: 500 });
  expect(promptness("large_body", 501)).toMatchObject({ result: "failed", fault: "too_slow" });
  expect(promptness("unsigned", 501)).toEqual({ check: "prompt_answer", result: "not_run" });
});

test("a receiver is certified when nothing that applies to it has failed or is missing", () => {
  const answered = standard.map((request) => ({
    request,
    id: "test_1",
    answer: answer({ status: request.isAccepted ? 204 : 401 }),
  }));
  const all = { at: 1, checks: certificationOutcomes(standard, answered, 1_000) };
  expect(isCertified(all)).toBe(true);
  expect(isCertified({ at: 1, checks: certificationOutcomes(standard, answered.slice(1), 1_000) })).toBe(
    false,
  );
  expect(certificationIn(JSON.stringify(all))).toEqual(all);
  for (const stored of [null, "", "{}", '{"at":1,"checks":[{"check":"none"}]}'])
    expect(certificationIn(stored)).toBeUndefined();
});

test("checks that a signature form cannot pass do not apply", () => {
  const left = (...forms: Parameters<typeof certificationRequests>[0]) => {
    const made = certificationRequests(forms).map(({ check }) => check);
    return standard.map(({ check }) => check).filter((check) => !made.includes(check));
  };
  expect(left({ form: "stripe" })).toEqual([]);
  expect(left({ form: "slack" })).toEqual(["rotated_secret"]);
  expect(left({ form: "standard" }, { form: "github" })).toEqual(["rotated_secret", "old_timestamp"]);
});

test("the suite ends when nothing answers, when the receiver asks for quiet, and after half a minute", () => {
  expect(endsSuite(named("valid"), answer({ error: "dns" }), 0)).toBe(true);
  expect(endsSuite(named("unsigned"), answer({ error: "connection_lost" }), 0)).toBe(false);
  expect(endsSuite(named("unsigned"), answer({ status: 429 }), 0)).toBe(true);
  expect(endsSuite(named("unsigned"), answer({ status: 503, asksForQuiet: true }), 0)).toBe(true);
  expect(endsSuite(named("unsigned"), answer({ status: 401 }), 30_000)).toBe(false);
  expect(endsSuite(named("unsigned"), answer({ status: 401 }), 30_001)).toBe(true);
});

test("a body is JSON that libraries would write differently, and the altered body is the same JSON", () => {
  const text = certificationBody("breakwater.test", "2026-11-26T00:00:00.000Z", false);
  expect(JSON.stringify(JSON.parse(text))).not.toBe(text);
  const bytes = altered(new TextEncoder().encode(text));
  expect(bytes).toHaveLength(text.length + 1);
  expect(JSON.parse(new TextDecoder().decode(bytes))).toEqual(JSON.parse(text));
  expect(altered(new Uint8Array())).toEqual(Uint8Array.of(0x20));
  const large = certificationBody("breakwater.test", "2026-11-26T00:00:00.000Z", true);
  expect([large.length > 250_000, large.length < 256 * 1024]).toEqual([true, true]);
});

test("a fault is explained in the language of the reader, with its fix", () => {
  const one = { check: "valid", result: "failed", fault: "no_answer", error: "tls" } as const;
  expect(explainedFault(certificationTexts, one, { limit: "", errorText: "" })).toEqual({
    reason: "There was no answer: tls.",
    fix: certificationTexts.fixes.no_answer,
  });
  const refused = { check: "valid", result: "failed", fault: "not_accepted", status: 401 } as const;
  expect(explainedFault(de.certification, refused, { limit: "", errorText: "" })).toEqual({
    reason: "Die Antwort war 401; richtig ist 2xx.",
    fix: de.certification.fixes.valid,
  });
  expect(
    explainedFault(certificationTexts, { check: "valid", result: "passed" }, { limit: "", errorText: "" }),
  ).toBeUndefined();
});
