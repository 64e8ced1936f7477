/** The payload of an endpoint, and the forms in which it is signed, in the form of an endpoint. */

import type { FC } from "hono/jsx";
import { bodyForms } from "../../core/content.ts";
import type { FieldError } from "../../core/result.ts";
import type { destinationView } from "../../features/destinations/schema.ts";
import { errorsIn, signatureFieldsOf, signatureFormsIn } from "../dashboard/destination-input.ts";
import { Input, useForm } from "../ui/fields.tsx";
import { type Form, textIn } from "../ui/format.ts";
import { Fold } from "../ui/parts.tsx";
import { SignatureForms, templateExamples, templateLabels, templateNames } from "../ui/signature-forms.tsx";
import { type PortalStyle, usePortal } from "./look.ts";
import type { FieldFaults } from "./problems.ts";

type Signed = Pick<ReturnType<typeof destinationView>, "body" | "signature_forms">;

/** The default of an endpoint that nothing is chosen for. */
export const defaultSigning: Signed = { body: "envelope", signature_forms: null };
export function signingInputs({ body, signature_forms }: Signed): Form {
  return { body, ...signatureFieldsOf(signature_forms) };
}

/** The form's changes, without unchanged values. */
export function signingIn(form: Form, before: Signed): Readonly<Record<string, unknown>> {
  const stored = signatureFormsIn(signingInputs(before));
  const forms = signatureFormsIn(form);
  const body = textIn(form, "body") ?? before.body;
  return {
    ...(body !== before.body && { body }),
    ...(JSON.stringify(forms) !== JSON.stringify(stored) && { signature_forms: forms }),
  };
}

/** Whether `signingFaults` has the words for it. */
export function isOfSigning({ field }: FieldError): boolean {
  return /^signature_forms\b/.test(field);
}

/** By input: a fault of a custom form is at its own field, every other at the choice of forms. */
export function signingFaults({ t }: PortalStyle, form: Form, errors: readonly FieldError[]): FieldFaults {
  const placed = errorsIn(form, errors.filter(isOfSigning)).map(({ input = "" }) => {
    const name = templateNames.find((one) => one === /^template_\d_(\w+)$/.exec(input)?.[1]);
    if (name === undefined) return ["signature_forms", t.faults.signature_forms];
    if (name === "content" || name === "prefix") return [input, t.signing.faults[name]];
    const example = templateExamples[name];
    return [input, example === undefined ? t.chooseOne : t.signing.faults.header(example)];
  });
  return Object.fromEntries(placed);
}

/** Their labels, by input. */
export function signingLabels({ t }: PortalStyle): Readonly<Record<string, string>> {
  return { body: t.signing.body, signature_forms: t.signing.forms, ...templateLabels(t.signing.fields) };
}

export const SigningFields: FC = () => {
  const { signing: t } = usePortal().t;
  const isFaulty = useForm().errors.some(({ input = "" }) => /^(body|signature_forms|template_)/.test(input));
  return (
    <Fold title={t.title} open={isFaulty}>
      <div class="stack">
        <Input name="body" options={bodyForms.map((name) => [name, t.bodies[name]])} />
        <SignatureForms />
      </div>
    </Fold>
  );
};
