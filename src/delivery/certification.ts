/**
 * Runs the conformance suite (core/certification.ts) against a destination, with the sender of its deliveries: the same guard
 * against private addresses, the same headers and signatures. Its requests are made one after the other.
 */
import {
  type AnsweredRequest,
  altered,
  type CertificationAnswer,
  type CertificationOutcome,
  type CertificationRequest,
  certificationBody,
  certificationOutcomes,
  certificationRequests,
  endsSuite,
} from "../core/certification.ts";
import { previousSecrets } from "../core/credentials.ts";
import { formsOf, recipeOf } from "../core/signature-forms.ts";
import { newSecret } from "../secrets/signing.ts";
import { sealedScheme } from "../secrets/vault.ts";
import type { Services } from "../services.ts";
import { type Destination, gateSettingsOf, isSubscription } from "../store/destination.ts";
import { isoTime } from "../time.ts";
import { call, type EventRequest, requestHeadersOf, type Sender } from "./http.ts";
import { kindNameOf } from "./kinds/sending.ts";
import { type Signer, signerFor } from "./signature.ts";
import { newTestId, plainTest, testRequest, testSender } from "./test-event.ts";

/** The longest that the suite waits for one answer. */
const MOST_TIMEOUT_MS = 15_000;

/** Whether a destination answers requests, so that its answers can be judged. */
export function canCertify(destination: Pick<Destination, "url" | "subscriber">): boolean {
  return ["https", "service"].includes(kindNameOf(destination.url)) && !isSubscription(destination);
}

/** The results of the suite; `fault` is a sentence that says why it cannot be run. */
export async function runCertification(
  services: Services,
  destination: Destination,
): Promise<Readonly<{ checks: readonly CertificationOutcome[] } | { fault: string }>> {
  if (!canCertify(destination)) return { fault: "Only an endpoint that answers requests can be certified." };
  const timestamp = isoTime(services.now());
  const [small, large] = await Promise.all(
    [false, true].map((isLarge) =>
      testRequest(
        services,
        destination,
        plainTest.type,
        certificationBody(plainTest.type, timestamp, isLarge),
      ),
    ),
  );
  if (small === undefined || "fault" in small) return { fault: small?.fault ?? "" };
  if (large === undefined || "fault" in large) return { fault: large?.fault ?? "" };
  const sender = await testSender(services, destination);
  if ("fault" in sender) return sender;
  const signers = await signersFor(services, destination, sender.signer);
  const planned = certificationRequests(formsOf(destination.signatureForms));
  const { timeoutMs } = gateSettingsOf(destination);
  const startedAt = services.now();
  const answered: AnsweredRequest[] = [];
  for (const request of planned) {
    const id = (request.isRepeat && answered[0]?.id) || newTestId();
    const sent = { ...(request.isLarge ? large : small), id };
    const via = { ...sender, signer: signers[request.signedBy] };
    const answer = await answerTo(services, request, sent, via, Math.min(timeoutMs, MOST_TIMEOUT_MS));
    answered.push({ request, id, answer });
    if (endsSuite(request, answer, services.now() - startedAt)) break;
  }
  const checks = certificationOutcomes(planned, answered, timeoutMs);
  const failed = checks.filter(({ result }) => result === "failed").length;
  services.log({ what: "certification_run", destination: destination.id, requests: answered.length, failed });
  return { checks };
}

type Signers = Readonly<Record<CertificationRequest["signedBy"], Signer>>;

async function signersFor(services: Services, destination: Destination, own: Signer): Promise<Signers> {
  const { vault, now } = services;
  const { id, secret, signatureForms } = destination;
  const stranger = await vault.seal(id, newSecret(sealedScheme(secret) ?? "hmac-sha256"));
  const signing = { id, secret: stranger, signatureForms };
  const replaced = [
    { secret, expires_at: now() + 3_600_000 },
    ...previousSecrets(destination.previousSecrets),
  ];
  const headers = formsOf(signatureForms).map((form) => recipeOf(form).header);
  return {
    own,
    other: await signerFor(vault, { ...signing, previousSecrets: [] }, now()),
    both: await signerFor(vault, { ...signing, previousSecrets: replaced }, now()),
    nobody: async (event, at) => {
      const signed = Object.entries(await own(event, at));
      return Object.fromEntries(signed.filter(([name]) => !headers.includes(name)));
    },
  };
}

async function answerTo(
  services: Services,
  { isAccepted, isAltered, isRepeat, ageMs }: CertificationRequest,
  { id, payload, way, headers: posted }: EventRequest & Readonly<{ id: string }>,
  { signer, credentials, post }: Sender,
  timeoutMs: number,
): Promise<CertificationAnswer> {
  const { type } = plainTest;
  const message = { id, type, headers: posted, ...payload, attempt: isRepeat ? 2 : 1 };
  // A forgery is to be refused with 401, which does not mean that an access token has expired.
  const { renew: _, ...fixed } = credentials;
  const { exchange, startedAt, endedAt } = await call(services, {
    post,
    type,
    headers: (at) => requestHeadersOf(services, message, { signer, credentials }, at - ageMs),
    credentials: isAccepted ? credentials : fixed,
    body: isAltered ? altered(payload.body) : payload.body,
    way,
    timeoutMs,
  });
  const { status, retryAfter } = exchange;
  return {
    status,
    error: exchange.kind === "response" ? undefined : exchange.kind,
    tookMs: endedAt - startedAt,
    asksForQuiet: retryAfter !== undefined,
  };
}
