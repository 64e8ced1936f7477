/**
 * Certification of receivers: the conformance suite, run against a destination with its owner's consent, and its last
 * result. A run is bounded in requests and time (core/certification.ts), and its gate allows one a minute and none
 * during a hold.
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
import { conflict, invalidField, missing, ok } from "../../core/result.ts";
import { zodFieldsOf } from "../../core/zod-of.ts";
import { runCertification } from "../../delivery/certification.ts";
import { changeDestination } from "../../store/destinations.ts";
import { isoTime } from "../../time.ts";
import { documented, strict, time } from "../parameters.ts";
import { destinationService, refuseTest } from "./one.ts";

export const certificationOrder = strict({
  consent: z.literal(true, "expected true").describe("That the endpoint's owner agrees to the requests."),
});

type Order = Readonly<{ id: string; consent: boolean }>;

/** Runs the suite and stores its result, unless the destination's target has changed meanwhile. */
export const certifyDestination = destinationService(
  { scope: "admin", action: "send_test", role: "repair" },
  async ({ services, changed }, destination, { id, consent }: Order) => {
    if (!consent) return invalidField("consent", "is missing", "true: the owner agrees to the requests");
    const refused = await refuseTest(services, id, true);
    if (refused) return refused;
    const { url, tenant } = destination;
    const ran = await runCertification(services, destination);
    if ("fault" in ran) return conflict(ran.fault);
    const certification: Certification = { at: services.now(), checks: [...ran.checks] };
    const stored = { certification: JSON.stringify(certification) };
    const row = await changeDestination(services.db, id, stored, tenant, { url });
    if (row === undefined) return conflict("The destination was changed while the test ran");
    const is_certified = isCertified(certification);
    changed("destination.certified", row, { is_certified: { from: null, to: is_certified } });
    return ok(certificationView(certification));
  },
);

/** The last result for the destination's current target. */
export const getCertification = destinationService(
  { scope: "read", action: "read" },
  async (_, { id, certification: stored }) => {
    const certification = certificationIn(stored);
    return certification ? ok(certificationView(certification)) : missing("certification of", id);
  },
);

export const certificationSchema = documented("Certification", {
  certified: z.boolean().describe("Every check that applies has passed."),
  at: time,
  checks: z.array(
    z.object({
      ...zodFieldsOf(certificationOutcomeFields),
      reason: z.string().optional().describe("Why it failed, as a sentence."),
      fix: z.string().optional().describe("How to fix it."),
    }),
  ),
});

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
