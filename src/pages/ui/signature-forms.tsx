/** The forms in which requests are signed, in the form of a destination: those of vendors, and custom ones. */
import type { FC } from "hono/jsx";
import { signatureFormsShape, templateShapes, vendorForms } from "../../core/signature-forms.ts";
import { GroupField, Input, markOf, useForm, valueIn } from "./fields.tsx";
import type { Option } from "./form-fields.ts";
import { usePage } from "./page.tsx";
import { CheckBox } from "./parts.tsx";
import { formTexts } from "./setting-texts.ts";

export const templateNames = Object.keys(templateShapes) as (keyof typeof templateShapes)[];

/** Labels of inputs, by input: of one template, or of all that a form may have. */
export function templateLabels(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const all = Array.from({ length: signatureFormsShape.max }, (_, slot) =>
    Object.entries(labels).map(([name, label]) => [`template_${slot}_${name}`, label]),
  );
  return Object.fromEntries(all.flat());
}

/** One more custom form is shown than is used. */
export const SignatureForms: FC = () => {
  const form = useForm();
  const { signing: t } = usePage().t;
  const isUsed = (slot: number) => valueIn(form, `template_${slot}_content`) !== "";
  const slots = Array.from({ length: signatureFormsShape.max }, (_, slot) => slot);
  return (
    <>
      <GroupField name="signature_forms" hint={t.formsHint}>
        <div class="fields">
          {vendorForms.map((name, i) => (
            <CheckBox
              name={`sign_${name}`}
              checked={valueIn(form, `sign_${name}`) === "on"}
              value="on"
              label={formTexts[name]}
              {...(i === 0 && markOf(form, "signature_forms"))}
            />
          ))}
        </div>
      </GroupField>
      {slots.slice(0, slots.findLastIndex(isUsed) + 2).map((slot) => (
        <OwnForm slot={slot} />
      ))}
    </>
  );
};

/** The placeholders of its inputs; a choice has none. */
export const templateExamples: Readonly<Partial<Record<keyof typeof templateShapes, string>>> = {
  content: "{timestamp}.{body}",
  signature_header: "X-Signature",
  timestamp_header: "X-Timestamp",
  id_header: "X-Event-Id",
  type_header: "X-Event-Type",
  prefix: "sha256=",
};

/** A form that no vendor has. Spaces at the ends of its texts are signed. The first of a choice is the default, and is not sent. */
const OwnForm: FC<{ slot: number }> = ({ slot }) => {
  const { f, t: texts } = usePage();
  const t = texts.signing;
  return (
    <fieldset>
      <legend>{t.own(f.count(slot + 1))}</legend>
      <div class="fields">
        {templateNames.map((field) => {
          const about = { name: `template_${slot}_${field}`, placeholder: templateExamples[field] };
          if (field === "content") return <Input kind="area" {...about} class="short" hint={t.contentHint} />;
          const shape = templateShapes[field];
          if (shape.kind !== "choice") return <Input {...about} />;
          const options = shape.values.map((option, i): Option => {
            return [i === 0 ? "" : option, field === "key" ? t.keys[option as "text" | "bytes"] : option];
          });
          return <Input {...about} options={options} />;
        })}
      </div>
    </fieldset>
  );
};
