/**
 * Certification of receivers: the conformance suite, run against a destination by its owner's consent, and its last result.
 * A run is bounded in requests and time (core/certification.ts), and its gate allows one a minute and none during a hold.
 */
import { z } from "@hono/zod-openapi";
import {
  type Certification,
  certificationIn,
  certificationOutcomeFields,
  certificationTexts,
  explainedFault,
  isCertified,
} from "../../core/certification.ts";
import { conflict, invalidFields, missing, ok, unavailable } from "../../core/result.ts";
import { zodFieldsOf } from "../../core/zod-of.ts";
import { runCertification } from "../../delivery/certification.ts";
import { atGate } from "../../gate/client.ts";
import { changeDestination } from "../../store/destinations.ts";
import { isoTime } from "../../time.ts";
import { strict } from "../parameters.ts";
import { service } from "../service.ts";
import { GATE_UNREACHABLE, tooSoon, visibleDestination } from "./service.ts";

export const certificationOrder = strict({
  consent: z
    .literal(true, { error: "expected true" })
    .describe("That the endpoint's owner agrees to the requests."),
});

type Order = Readonly<{ id: string; consent: boolean }>;

/** Runs the suite and stores its result, unless the destination's target has changed meanwhile. */
export const certifyDestination = service(
  { scope: "admin", action: "send_test", role: "repair" },
  async ({ services, principal, changed }, { id, consent }: Order) => {
    if (!consent)
      return invalidFields([
        { field: "consent", fault: "is missing", expected: "true: the owner agrees to the requests" },
      ]);
    const found = await visibleDestination(services, principal, id);
    if (found.kind !== "ok") return found;
    const until = await atGate(services, id, "claimTest", true);
    if (until === undefined) return unavailable(GATE_UNREACHABLE);
    if (until !== null) return tooSoon(until - services.now());
    const { url } = found.value;
    const ran = await runCertification(services, found.value);
    if ("fault" in ran) return conflict(ran.fault);
    const certification: Certification = { at: services.now(), checks: [...ran.checks] };
    const stored = { certification: JSON.stringify(certification) };
    const row = await changeDestination(services.db, id, stored, principal.tenant, { url });
    if (row === undefined) return conflict("The destination was changed while the suite ran");
    const is_certified = isCertified(certification);
    changed("destination.certified", row, { is_certified: { from: null, to: is_certified } });
    return ok(certificationView(certification));
  },
);

/** The last result for the destination's current target. */
export const getCertification = service(
  { scope: "read", action: "read" },
  async ({ services, principal }, id: string) => {
    const found = await visibleDestination(services, principal, id);
    if (found.kind !== "ok") return found;
    const certification = certificationIn(found.value.certification);
    return certification ? ok(certificationView(certification)) : missing("certification of", id);
  },
);

export const certificationSchema = z
  .object({
    certified: z.boolean().describe("Every check that applies has passed."),
    at: z.iso.datetime(),
    checks: z.array(
      z.object({
        ...zodFieldsOf(certificationOutcomeFields),
        reason: z.string().optional().describe("Why it failed, as a sentence."),
        fix: z.string().optional().describe("How to mend that."),
      }),
    ),
  })
  .openapi("Certification");

function certificationView(certification: Certification): z.infer<typeof certificationSchema> {
  return {
    certified: isCertified(certification),
    at: isoTime(certification.at),
    checks: certification.checks.map((one) => ({
      ...one,
      ...explainedFault(certificationTexts, one, { limit: `${one.limit_ms} ms`, errorText: "" }),
    })),
  };
}
