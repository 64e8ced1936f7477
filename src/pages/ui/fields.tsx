/**
 * The fields of forms: label, input, hint and error. A field takes its label from the form's table (form-fields.ts), its
 * value from what was typed or stored, and its error from the API's answer, which is read with the input by screen readers.
 */
import type { Child, FC, PropsWithChildren } from "hono/jsx";
import type { Refused } from "../../core/result.ts";
import { type FormFields, type PlacedError, placeErrors } from "./form-fields.ts";
import type { Form } from "./format.ts";
import { usePage } from "./page.tsx";
import { Options } from "./parts.tsx";

/** The state that a form shows: its values, and why they were refused. */
export type FormState = Readonly<{
  values: Form;
  labels: FormFields;
  errors: readonly PlacedError[];
  /** Said above the fields: why a form was refused that has no error at a field. */
  detail?: string;
}>;

export function formState(values: Form, labels: FormFields, refused?: Refused): FormState {
  if (refused === undefined) return { values, labels, errors: [] };
  return { values, labels, errors: placeErrors(refused.errors ?? [], labels), detail: refused.detail };
}

/** Above a refused form: what has no field in it, and links to the fields at fault. */
export const FormNotice: FC<{ form: FormState }> = ({ form: { errors, detail } }) => {
  if (detail === undefined) return null;
  const { check } = usePage().t;
  const general = errors.filter(({ input }) => input === undefined);
  const placed = [...new Map(errors.flatMap((one) => (one.input ? [[one.input, one.label] as const] : [])))];
  return (
    <div class="notice tone-bad break" role="alert">
      {errors.length === 0 && <p>{`${detail}.`.replace(/\.\.$/, ".")}</p>}
      {general.map(({ text }) => (
        <p>{text}</p>
      ))}
      {placed.length > 0 && (
        <p>
          {`${check} `}
          {placed.map(([input, label], i) => (
            <>
              {i > 0 && ", "}
              <a href={`#${idOf(input)}`}>{label}</a>
            </>
          ))}
          .
        </p>
      )}
    </div>
  );
};

type FieldProps = Readonly<{
  form: FormState;
  name: string;
  hint?: Child;
  /** A class, such as `all` for the whole width. */
  of?: string | undefined;
}>;

/** The text in a field; empty when there is none. */
export function valueIn({ values }: FormState, name: string): string {
  const value = values[name];
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function idOf(name: string): string {
  return `f-${name}`;
}

function labelIn({ labels }: FormState, name: string): string {
  return Object.values(labels).findLast(([input]) => input === name)?.[1] ?? name;
}

/** Marks an input that is at fault. */
export function markOf({ errors }: FormState, name: string) {
  return errors.some(({ input }) => input === name) ? { "aria-invalid": "true" as const } : {};
}

/** Whether an input is at fault, and where that is said. */
function aboutInput({ form, name, hint }: FieldProps) {
  const mark = markOf(form, name);
  const isAtFault = "aria-invalid" in mark;
  const described = [...(isAtFault ? [`${idOf(name)}-fault`] : []), ...(hint ? [`${idOf(name)}-hint`] : [])];
  return {
    ...mark,
    ...(described.length > 0 && { "aria-describedby": described.join(" ") }),
  };
}

const Below: FC<FieldProps> = ({ form, name, hint }) => {
  const faults = form.errors.filter(({ input }) => input === name);
  return (
    <>
      {faults.length > 0 && (
        <div class="fault break" id={`${idOf(name)}-fault`}>
          {faults.map(({ text }) => (
            <p>{text}</p>
          ))}
        </div>
      )}
      {hint !== undefined && (
        <p class="hint" id={`${idOf(name)}-hint`}>
          {hint}
        </p>
      )}
    </>
  );
};

type TextProps = FieldProps &
  Readonly<{
    type?: "text" | "url" | "password" | "number" | "datetime-local" | "email";
    placeholder?: string | undefined;
    maxlength?: number | undefined;
    list?: string;
    required?: boolean;
    autocomplete?: "off";
    inputmode?: "decimal";
    range?: Readonly<{ min: number; max: number }>;
  }>;

/** An input with its label above, and its hint and its faults below. */
const Labelled: FC<{ field: FieldProps; children?: Child }> = ({ field, children }) => (
  <div class={field.of}>
    <label for={idOf(field.name)}>{labelIn(field.form, field.name)}</label>
    {children}
    <Below {...field} />
  </div>
);

/** What every input has. */
function attributesOf(field: FieldProps) {
  return { id: idOf(field.name), name: field.name, ...aboutInput(field) };
}

/** One line. A password is never filled in again: what was typed of it is not sent back. */
export const TextField: FC<TextProps> = ({ type = "text", range, form, name, hint, of, ...more }) => {
  const field = { form, name, hint, of };
  return (
    <Labelled field={field}>
      <input
        type={type}
        id={idOf(name)}
        name={name}
        value={type === "password" ? "" : valueIn(form, name)}
        {...aboutInput(field)}
        {...more}
        {...(type === "password" && { autocomplete: "new-password" })}
        {...(type === "number" && { step: "any", min: range?.min, max: range?.max })}
      />
    </Labelled>
  );
};

/** Several lines. */
export const AreaField: FC<FieldProps & Readonly<{ placeholder?: string | undefined; class?: string }>> = ({
  placeholder,
  class: size,
  of = "all",
  ...field
}) => (
  <Labelled field={{ ...field, of }}>
    <textarea placeholder={placeholder} spellcheck={false} class={size} {...attributesOf(field)}>
      {`\n${valueIn(field.form, field.name)}`}
    </textarea>
  </Labelled>
);

export type Option = readonly [value: string, label: string];

export const ChoiceField: FC<FieldProps & Readonly<{ options: readonly Option[] }>> = ({
  options,
  ...field
}) => (
  <Labelled field={field}>
    <select {...attributesOf(field)}>
      <Options of={options} chosen={valueIn(field.form, field.name)} />
    </select>
  </Labelled>
);

/** Several inputs under one label. The first of them has its `markOf`. */
export const GroupField: FC<PropsWithChildren<FieldProps>> = ({ children, ...field }) => {
  const { "aria-invalid": _, ...described } = aboutInput(field);
  return (
    <fieldset id={idOf(field.name)} class={field.of} {...described}>
      <legend>{labelIn(field.form, field.name)}</legend>
      {children}
      <Below {...field} />
    </fieldset>
  );
};

/** @param label where a box has another than its field */
export const CheckField: FC<FieldProps & Readonly<{ label?: string }>> = ({ label, ...field }) => (
  <div class={field.of}>
    <label class="check">
      <input
        type="checkbox"
        id={idOf(field.name)}
        name={field.name}
        value="on"
        {...aboutInput(field)}
        checked={valueIn(field.form, field.name) === "on"}
      />
      {label ?? labelIn(field.form, field.name)}
    </label>
    <Below {...field} />
  </div>
);
