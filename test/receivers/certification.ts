/**
 * The conformance suite against the receivers of docs/receivers: they pass, and one without any of the rules fails the check
 * of that rule.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { describe, expect, test } from "vitest";
import { runCertification } from "../../src/delivery/certification.ts";
import { newMemory } from "../../src/memory.ts";
import { newSecret } from "../../src/secrets/signing.ts";
import { testConfig } from "../support/config.ts";
import { isNightly } from "../support/effort.ts";
import { vault } from "../support/vault.ts";
import { type Language, RECEIVERS, type RunningReceiver, type Settings } from "./languages.ts";
import { mutants, type Rule, rules, type TextReplacement, WORK_MS } from "./mutants.ts";

/** The names of the checks that fail. */
async function failedChecks(
  receiver: RunningReceiver,
  secret: string,
  timeoutMs: number,
): Promise<readonly string[]> {
  const config = testConfig({ allowPrivateDestinations: true });
  const services = { config, vault, memory: newMemory(), fetch, now: Date.now, log: () => {} };
  const destination = {
    ...{
      id: "dst_1",
      tenant: "acme",
      url: receiver.url,
      secret: await vault.seal("dst_1", secret),
      timeoutMs,
    },
    ...{ previousSecrets: null, signatureForms: null, headers: null, sealedHeaders: null, auth: null },
    ...{ body: null, template: null, targetToken: null, status: "active" },
  };
  const ran = await runCertification(services as never, destination as never);
  if ("fault" in ran) throw new Error(ran.fault);
  return ran.checks.flatMap(({ check, result }) => (result === "passed" ? [] : [check]));
}

async function whileRunning<T>(
  language: Language,
  settings: Settings,
  file: string | undefined,
  work: (receiver: RunningReceiver) => Promise<T>,
): Promise<T> {
  const receiver = await language.start(settings, file);
  try {
    return await work(receiver);
  } finally {
    await receiver.stop();
  }
}

type Turn = Readonly<{ nth: number; of: number }>;

/** Long enough that no machine is too slow for it. */
const PATIENT_MS = 30_000;

const secret = newSecret("hmac-sha256");
const settings = { WEBHOOK_SECRET: secret };

/** A test that a language's receiver passes; nothing where it cannot run (live-deliveries.ts says so). */
export async function describeCertification(language: Language): Promise<void> {
  if ((await language.lacks()) !== undefined) return;
  test(`the receiver in ${language.name} passes the conformance suite`, async () => {
    const run = (receiver: RunningReceiver) => failedChecks(receiver, secret, PATIENT_MS);
    expect(await whileRunning(language, settings, undefined, run)).toEqual([]);
  });
}

/** The names of the checks that the receiver fails with this text in place of that one. */
async function failedChecksWith(
  language: Language,
  [from, to]: TextReplacement,
  timeoutMs: number,
): Promise<readonly string[]> {
  const original = join(RECEIVERS, language.file);
  const source = readFileSync(original, "utf8");
  const folder = mkdtempSync(join(tmpdir(), "breakwater-mutant-"));
  try {
    const file = join(folder, basename(original));
    writeFileSync(
      file,
      source.replace(from, () => to),
    );
    const run = (receiver: RunningReceiver) => failedChecks(receiver, secret, timeoutMs);
    return await whileRunning(language, settings, file, run);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Tests that the suite finds a language's receiver without one of its rules.
 * @param turn where CI tries each rule in one of several languages, because building takes longer than the suite: which one this is
 */
export async function describeMutants(language: Language, turn?: Turn): Promise<void> {
  const all = Object.entries(mutants[language.name] ?? {});
  test.each(all)(`the receiver in ${language.name} has the rule that is removed to see that it %s`, (_, [
    from,
  ]) => {
    expect(readFileSync(join(RECEIVERS, language.file), "utf8").split(from)).toHaveLength(2);
  });
  const tried = all.filter((_, i) => isNightly || !turn || i % turn.of === turn.nth);
  if (tried.length === 0 || (await language.lacks()) !== undefined) return;
  // Some break two rules: they are built and run once.
  const known = new Map<string, Promise<readonly string[]>>();
  describe(`the conformance suite finds a receiver in ${language.name}`, () => {
    test.each(tried)("that no longer %s", async (rule, replacement) => {
      const check = rules[rule as Rule];
      // The slower the machine, the later is the answer.
      const timeoutMs = check === "prompt_answer" ? WORK_MS * 2 - 100 : PATIENT_MS;
      const name = JSON.stringify(replacement);
      const failed = known.get(name) ?? failedChecksWith(language, replacement, timeoutMs);
      known.set(name, failed);
      expect(await failed).toContain(check);
    });
  });
}
