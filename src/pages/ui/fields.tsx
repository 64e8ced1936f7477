/**
 * The fields of forms: label, input, hint and error. A field takes its label from the form's table (form-fields.ts), its
 * value from what was typed or stored, and its error from the API's answer, which is read with the input by screen readers.
 */
import { type Child, createContext, type FC, type PropsWithChildren, useContext } from "hono/jsx";
import type { Refused } from "../../core/result.ts";
import {
  aboutInput,
  type FormFields,
  type InputAbout,
  inputLabel,
  type PlacedError,
  placeErrors,
} from "./form-fields.ts";
import type { Form } from "./format.ts";
import { usePage } from "./page.tsx";
import { ButtonLink, Hidden, Options } from "./parts.tsx";

/** The state that a form shows: its values, and why they were refused. */
export type FormState = Readonly<{
  values: Form;
  labels: FormFields;
  errors: readonly PlacedError[];
  /** The reason above the fields if a form was refused without an error at a field. */
  detail?: string;
}>;

/** A form that is shown again: its input, and why it was refused. */
export type RefusedForm = Readonly<{ typed?: Form; refused?: Refused }>;

export function formState(values: Form, labels: FormFields, refused?: Refused): FormState {
  if (refused === undefined) return { values, labels, errors: [] };
  return { values, labels, errors: placeErrors(refused.errors ?? [], labels), detail: refused.detail };
}

const NO_FORM: FormState = { values: {}, labels: {}, errors: [] };

const formAround = createContext(NO_FORM);

export const FormProvider = formAround.Provider;

/** The form around a component. */
export function useForm(): FormState {
  return useContext(formAround);
}

/** Shown above a refused form: errors without a field, and links to the fields at fault. */
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

/** Marks an input that is at fault. */
export function markOf({ errors }: FormState, name: string) {
  return errors.some(({ input }) => input === name) ? { "aria-invalid": "true" as const } : {};
}

/** Whether an input is at fault, and the id of the message. */
function faultMarks(form: FormState, { name, hint }: FieldProps) {
  const mark = markOf(form, name);
  const isAtFault = "aria-invalid" in mark;
  const described = [...(isAtFault ? [`${idOf(name)}-fault`] : []), ...(hint ? [`${idOf(name)}-hint`] : [])];
  return {
    ...mark,
    ...(described.length > 0 && { "aria-describedby": described.join(" ") }),
  };
}

const Below: FC<FieldProps> = ({ name, hint }) => {
  const faults = useForm().errors.filter(({ input }) => input === name);
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

/** Several inputs under one label. The first of them has its `markOf`. */
export const GroupField: FC<PropsWithChildren<FieldProps>> = ({ children, ...field }) => {
  const form = useForm();
  const { "aria-invalid": _, ...described } = faultMarks(form, field);
  return (
    <fieldset id={idOf(field.name)} class={field.of} {...described}>
      <legend>{inputLabel(form.labels, field.name)}</legend>
      {children}
      <Below {...field} />
    </fieldset>
  );
};

type InputProps = Omit<FieldProps, "hint"> &
  Omit<InputAbout, "hint" | "of" | "expected"> &
  Readonly<{
    hint?: Child;
    /** The name, if a box has another than its field. */
    label?: string;
    /** The id of its suggestions. */
    list?: string | undefined;
    class?: string;
  }>;

/**
 * The input of a field, as the form's table describes it (form-fields.ts), or as the page knows better. A password is
 * never filled in again: its input is not sent back.
 */
export const Input: FC<InputProps> = ({ name, label, ...known }) => {
  const form = useForm();
  const about: Omit<InputProps, "name"> = { ...aboutInput(form.labels, name), ...known };
  const { options, kind = options ? "choice" : "text", hint, class: size, ...line } = about;
  const isArea = kind === "area" || kind === "json";
  const of = about.of ?? (isArea ? "all" : undefined);
  const field = { name, hint, of };
  const attributes = (value: object = {}) => ({ id: idOf(name), name, ...value, ...faultMarks(form, field) });
  const text = label ?? inputLabel(form.labels, name);
  const value = valueIn(form, name);
  if (kind === "check")
    return (
      <div class={of}>
        <label class="check">
          <input type="checkbox" {...attributes({ value: "on" })} checked={value === "on"} />
          {text}
        </label>
        <Below {...field} />
      </div>
    );
  return (
    <div class={of}>
      <label for={idOf(name)}>{text}</label>
      {isArea ? (
        <textarea placeholder={about.placeholder} spellcheck={false} class={size} {...attributes()}>
          {`\n${value}`}
        </textarea>
      ) : kind === "choice" ? (
        <select {...attributes()}>
          <Options of={options ?? []} chosen={value} />
        </select>
      ) : (
        <Line {...line} kind={kind} attributes={attributes({ value: kind === "password" ? "" : value })} />
      )}
      <Below {...field} />
    </div>
  );
};

type LineProps = Omit<InputAbout, "hint" | "of" | "kind"> &
  Readonly<{ kind: NonNullable<InputAbout["kind"]>; list?: string | undefined; attributes: object }>;

/** An input of one line. */
const Line: FC<LineProps> = ({ kind, attributes, range, step, ...about }) => {
  const { placeholder, maxlength, required, list, inputmode } = about;
  return (
    <input
      type={kind === "list" ? "text" : kind === "time" ? "datetime-local" : kind}
      {...attributes}
      {...{ placeholder, maxlength, required, list, inputmode }}
      step={kind === "number" ? "any" : step}
      min={range?.min}
      max={range?.max}
      autocomplete={kind === "password" ? "new-password" : "off"}
    />
  );
};

/** The inputs of several fields, in this order. */
export const Inputs: FC<{ names: readonly string[] }> = ({ names }) => (
  <>
    {names.map((name) => (
      <Input name={name} />
    ))}
  </>
);

type Actions = readonly (readonly [name: string, text: string, of?: string])[];

/** Buttons of a form that does several things: the field `action` has the name of the one that is pressed. */
export const ActionButtons: FC<{ of: Actions }> = ({ of }) => (
  <>
    {of.map(([name, text, className]) => (
      <button type="submit" class={className || undefined} name="action" value={name}>
        {text}
      </button>
    ))}
  </>
);

type FieldFormProps = PropsWithChildren<
  Readonly<{
    action: string;
    /** It changes nothing where it is sent as a query. */
    method?: "get" | "post";
    /** What its fields show. */
    form?: FormState;
    /** Whether it says above its fields why it was refused. */
    hasNotice?: boolean;
    /** Values that it sends besides the input. */
    hidden?: Readonly<Record<string, string | undefined>>;
    /** The text of its button, and the button's class. */
    submit?: Child;
    button?: "main" | "main bad" | "danger" | "";
    /** Its buttons, where it does several things. */
    actions?: Actions;
    hint?: Child;
    /** The address of its cancel button. */
    cancel?: string;
    /** More beside its buttons. */
    aside?: Child;
    noValidate?: boolean;
    enctype?: "multipart/form-data";
    "aria-label"?: string;
    "data-preview"?: "";
    class?: string;
  }>
>;

/** A form: why it was refused, its fields, and its buttons. */
export const FieldForm: FC<FieldFormProps> = (props) => {
  const { method = "post", form, hasNotice = true, hidden, children, class: of = "stack", ...others } = props;
  const { submit, button = "main", actions = [], hint, cancel, aside, ...more } = others;
  return (
    <FormProvider value={form ?? NO_FORM}>
      <form class={of || undefined} method={method} {...more}>
        {hidden && <Hidden of={hidden} />}
        {form && hasNotice && <FormNotice form={form} />}
        {children}
        {(submit || actions.length > 0 || aside || hint) && (
          <div class="actions">
            {submit && (
              <button type="submit" class={button || undefined}>
                {submit}
              </button>
            )}
            {cancel !== undefined && <ButtonLink href={cancel}>Cancel</ButtonLink>}
            <ActionButtons of={actions} />
            {aside}
            {hint && <span class="hint">{hint}</span>}
          </div>
        )}
      </form>
    </FormProvider>
  );
};
