/** The payload of an endpoint, and the forms in which it is signed, in the form of an endpoint. */

import type { FC } from "hono/jsx";
import { bodyForms } from "../../core/content.ts";
import type { FieldError } from "../../core/result.ts";
import { templateShapes, vendorForms } from "../../core/signature-forms.ts";
import type { destinationView } from "../../features/destinations/schema.ts";
import {
  errorsIn,
  MOST_TEMPLATES,
  signatureFieldsOf,
  signatureFormsIn,
} from "../dashboard/destination-input.ts";
import { type Form, textIn } from "../ui/format.ts";
import { Options } from "../ui/parts.tsx";
import { formTexts } from "../ui/setting-texts.ts";
import type { Look } from "./look.ts";
import { PortalField } from "./parts.tsx";
import type { FieldFaults } from "./problems.ts";

type Signed = Pick<ReturnType<typeof destinationView>, "body" | "signature_forms">;

/** The default of an endpoint that nothing is chosen for. */
export const defaultSigning: Signed = { body: "envelope", signature_forms: null };

/** The inputs of a stored endpoint. */
export function signingInputs({ body, signature_forms }: Signed): Form {
  return { body, ...signatureFieldsOf(signature_forms) };
}

/** The form's changes of it: what says the same as before is left out. */
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

/** By input: a fault of a form of one's own is at its own field, every other at the choice of forms. */
export function signingFaults({ t }: Look, form: Form, errors: readonly FieldError[]): FieldFaults {
  const placed = errorsIn(form, errors.filter(isOfSigning)).map(({ input = "" }) => {
    const name = fieldNames.find((one) => one === /^template_\d_(\w+)$/.exec(input)?.[1]);
    return name === undefined
      ? ["signature_forms", t.faults.signature_forms]
      : [input, t.signing.faults[name]];
  });
  return Object.fromEntries(placed);
}

const fieldNames = Object.keys(templateShapes) as (keyof typeof templateShapes)[];

type Props = Readonly<{ look: Look; typed: Form; faults: FieldFaults }>;

export const SigningFields: FC<Props> = ({ look, typed, faults }) => {
  const { t } = look;
  const isFaulty = Object.keys(faults).some((name) => /^(body|signature_forms|template_)/.test(name));
  const isUsed = (slot: number) => (typed[`template_${slot}_content`] ?? "") !== "";
  const slots = Array.from({ length: MOST_TEMPLATES }, (_, slot) => slot);
  const shown = slots.slice(0, slots.findLastIndex(isUsed) + 2);
  const fault = faults.signature_forms;
  return (
    <details open={isFaulty}>
      <summary>{t.signing.title}</summary>
      <div class="stack">
        <PortalField
          name="body"
          label={t.signing.body}
          fault={faults.body}
          control={(attributes) => (
            <select {...attributes}>
              <Options of={bodyForms.map((name) => [name, t.signing.bodies[name]])} chosen={typed.body} />
            </select>
          )}
        />
        <fieldset
          id="signature_forms"
          aria-describedby={`signature_forms-hint${fault === undefined ? "" : " signature_forms-fault"}`}
        >
          <legend>{t.signing.forms}</legend>
          <div class="fields">
            {vendorForms.map((name, i) => (
              <label class="check">
                <input
                  type="checkbox"
                  name={`sign_${name}`}
                  checked={typed[`sign_${name}`] === "on"}
                  {...(i === 0 && fault !== undefined && { "aria-invalid": "true" as const })}
                />
                {formTexts[name]}
              </label>
            ))}
          </div>
          <p class="hint" id="signature_forms-hint">
            {t.signing.formsHint}
          </p>
          {fault !== undefined && (
            <p class="fault" id="signature_forms-fault">
              {fault}
            </p>
          )}
        </fieldset>
        {shown.map((slot) => (
          <OwnForm look={look} typed={typed} faults={faults} slot={slot} />
        ))}
      </div>
    </details>
  );
};

/** A form that no vendor has. Spaces at the ends of what is typed are signed. */
const OwnForm: FC<Props & Readonly<{ slot: number }>> = ({ look: { t, f }, typed, faults, slot }) => {
  const value = (name: string) => String(typed[name] ?? "");
  return (
    <fieldset>
      <legend>{t.signing.own(f.count(slot + 1))}</legend>
      <div class="fields">
        {fieldNames.map((field) => {
          const name = `template_${slot}_${field}`;
          const isText = field === "content";
          return (
            <div class={isText ? "all" : ""}>
              <PortalField
                name={name}
                label={t.signing.fields[field]}
                hint={isText ? t.signing.contentHint : undefined}
                fault={faults[name]}
                control={(attributes) => {
                  if (isText)
                    return (
                      <textarea
                        class="short"
                        spellcheck={false}
                        placeholder="{timestamp}.{body}"
                        {...attributes}
                      >
                        {`\n${value(name)}`}
                      </textarea>
                    );
                  const shape = templateShapes[field];
                  if (shape.kind !== "choice")
                    return (
                      <input value={value(name)} spellcheck={false} autocomplete="off" {...attributes} />
                    );
                  return (
                    <select {...attributes}>
                      {shape.values.map((option, i) => (
                        <option value={i === 0 ? "" : option} selected={value(name) === option}>
                          {field === "key" ? t.signing.keys[option as "text" | "bytes"] : option}
                        </option>
                      ))}
                    </select>
                  );
                }}
              />
            </div>
          );
        })}
      </div>
    </fieldset>
  );
};
