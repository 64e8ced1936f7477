/**
 * The form of a destination, for creating one and for changing one. The style sheet hides fields that a kind or a way of
 * authentication has no use for, and nothing of them is sent to the API.
 */
import type { Child, FC } from "hono/jsx";
import { breakerShape, defaultBreaker, defaultLimits, limitShape } from "../../../core/limits.ts";
import { templates } from "../../../core/message-templates.ts";
import { destinationKinds, targetFieldNames } from "../../../delivery/kinds/registry.ts";
import {
  destinationFields,
  type FieldInput,
  fieldDescriptions,
} from "../../../features/destinations/fields.ts";
import {
  authInputs,
  authKinds,
  type TargetInput,
  targetInputs,
} from "../../../features/destinations/inputs.ts";
import {
  AreaField,
  CheckField,
  ChoiceField,
  type FormState,
  type Option,
  TextField,
} from "../../ui/fields.tsx";
import { fieldsNamed, templateFields } from "../../ui/form-fields.ts";
import { bodyTexts, kindTexts, orderTexts, templateTexts } from "../../ui/setting-texts.ts";
import { SignatureForms, templateLabels } from "../../ui/signature-forms.tsx";
import { breakerNames, kindIn, limitNames } from "../destination-input.ts";
import { DURATIONS, PolicyFieldsets, presetChoices } from "../simulator/policy-form.tsx";

type FormOptions = Readonly<{
  /** Whether it is being created: kind, tenant and secret are chosen once. */
  isNew: boolean;
  /** Whether the tenant is asked for. */
  asksTenant: boolean;
  /** Whether it may be one of the operator's, which get messages for chats. */
  mayHaveTemplate: boolean;
  /** Whether the deployment calls http and private addresses too. */
  allowsHttp: boolean;
  /** The names of event types to choose from. */
  types: readonly string[];
  /** The scheme of an existing one. */
  scheme?: string;
}>;

export const DestinationFields: FC<{ form: FormState; options: FormOptions; preview?: Child }> = ({
  form,
  options,
  preview,
}) => (
  <>
    <TargetFields form={form} options={options} />
    <div class="fields">
      <PartInputs form={form} part="name" />
      {options.asksTenant && <TextField form={form} name="tenant" placeholder="default" />}
    </div>
    <TypesField form={form} types={options.types} />
    <Group title="Channels and filter" form={form} isOpen={preview !== undefined}>
      <PartInputs form={form} part="filter" />
      {preview}
    </Group>
    <Group title="Body, headers and authentication" form={form}>
      <div class="fields">
        <ChoiceField form={form} name="body" options={Object.entries(bodyTexts)} />
        {options.mayHaveTemplate && (
          <ChoiceField
            form={form}
            name="template"
            options={[
              ["", "None: the body as it is"],
              ...templates.map((name) => [name, templateTexts[name]] as const),
            ]}
            hint="Only for destinations of the tenant operator."
          />
        )}
      </div>
      <AreaField
        form={form}
        name="headers"
        placeholder="X-Api-Key: abc"
        hint="One header a line. A value that is shown as *** stays as it is; a header that is removed here is no longer sent."
      />
      <AuthFields form={form} isNew={options.isNew} />
    </Group>
    <Group title="Signature" form={form}>
      <SignatureFields form={form} options={options} />
    </Group>
    <Group title="Order" form={form}>
      <ChoiceField form={form} name="ordering" options={Object.entries(orderTexts.ordering)} />
      <TextField form={form} name="ordering_path" placeholder={pathInput.placeholder} hint={pathInput.hint} />
      <ChoiceField form={form} name="on_dead" options={Object.entries(orderTexts.on_dead)} />
    </Group>
    <Group title="Limits and circuit breaker" form={form}>
      <LimitFields form={form} />
      <fieldset class="fields">
        <legend>Circuit breaker</legend>
        <BreakerFields form={form} />
      </fieldset>
    </Group>
    <Group title="Retry policy" form={form}>
      <ChoiceField form={form} name="preset" options={presetChoices} hint={DURATIONS} />
      <PolicyFieldsets form={form} />
    </Group>
    <Group title="Your own ID and metadata" form={form}>
      <PartInputs form={form} part="identity" />
      {options.isNew && <CheckField form={form} name="paused" hint="Events wait until you resume it." />}
    </Group>
  </>
);

const FilterHint: FC = () => (
  <>
    Conditions on the event's <code>data</code>, all of which must hold: a value, a list of values, or
    operators such as <code>gte</code>, <code>prefix</code>, <code>in</code> and <code>not</code>.{" "}
    <a href="/docs#destinations">All operators</a>
  </>
);

const fieldHints: Readonly<Record<string, FC>> = { filter: FilterHint };

/** The inputs of one part of the form, as the fields are described. */
const PartInputs: FC<{ form: FormState; part: FieldInput["part"] }> = ({ form, part }) => (
  <>
    {fieldDescriptions.map(([name, { input }]) => {
      if (input === undefined || input.part !== part) return null;
      const { kind, placeholder, hint, maxlength } = input;
      const Hint = fieldHints[name];
      const about = { form, name, placeholder, hint: Hint ? <Hint /> : hint };
      return kind === "json" ? <AreaField {...about} /> : <TextField {...about} maxlength={maxlength} />;
    })}
  </>
);

/** Fields that most destinations leave alone. All are open where a form was refused, so that no error is hidden. */
const Group: FC<{ title: string; form: FormState; isOpen?: boolean; children?: Child }> = ({
  title,
  form,
  isOpen = false,
  children,
}) => (
  <details open={isOpen || form.detail !== undefined}>
    <summary>{title}</summary>
    <div class="stack">{children}</div>
  </details>
);

const TargetFields: FC<{ form: FormState; options: FormOptions }> = ({
  form,
  options: { isNew, allowsHttp },
}) => {
  const kind = kindIn(form.values);
  const isAsked = (name: string) => isNew || targetFieldNames(kind).includes(name);
  /** The class of an input: which kinds it is for. */
  const of = (name: string) => {
    const kinds = destinationKinds.filter((one) => targetFieldNames(one).includes(name));
    return isNew ? ["only", ...kinds.map((one) => `for-${one}`)].join(" ") : "";
  };
  const hintOf = (name: string, hint: string | undefined) => {
    if (name === "url" && allowsHttp) return "https, or http: this deployment allows private destinations.";
    return name === "token" && !isNew ? "Empty keeps the current token." : hint;
  };
  return (
    <fieldset class="stack by-kind">
      {isNew && <ChoiceField form={form} name="kind" options={Object.entries(kindTexts)} />}
      {Object.entries<TargetInput>(targetInputs).map(
        ([name, { type, placeholder, hint }]) =>
          isAsked(name) && (
            <TextField
              form={form}
              name={name}
              {...(type && { type })}
              of={of(name)}
              placeholder={placeholder}
              hint={hintOf(name, hint)}
            />
          ),
      )}
    </fieldset>
  );
};

const { input: typesInput } = destinationFields.event_types;
const { input: pathInput } = destinationFields.ordering_path;

const TypesField: FC<{ form: FormState; types: readonly string[] }> = ({ form, types }) => (
  <>
    <TextField
      form={form}
      name="event_types"
      placeholder={typesInput.placeholder}
      {...(types.length > 0 && { list: "event-types" })}
      hint={typesInput.hint}
    />
    {types.length > 0 && (
      <datalist id="event-types">
        {types.map((type) => (
          <option value={type} />
        ))}
      </datalist>
    )}
  </>
);

const authOptions: readonly Option[] = [
  ["", "None besides the signature"],
  ...Object.entries(authKinds).map(([kind, { label }]) => [kind, label] as const),
];

/** Secret fields are left empty as long as they stay; after any other change they have to be given again. */
const AuthFields: FC<{ form: FormState; isNew: boolean }> = ({ form, isNew }) => (
  <fieldset class="fields by-auth">
    <legend>Authentication</legend>
    <ChoiceField form={form} name="auth_kind" options={authOptions} />
    {authInputs.flatMap(([kind, inputs]) =>
      inputs.map(([field, { kind: type, isSecret, options, placeholder }]) => {
        const about = { form, name: `auth_${field}`, of: `only for-${kind}`, placeholder };
        if (options) return <ChoiceField {...about} options={options} />;
        if (type === "json") return <AreaField {...about} of={`all ${about.of}`} />;
        if (!isSecret) return <TextField {...about} />;
        const hint = "Empty keeps it. Type it again if you change anything else of the authentication.";
        return <TextField {...about} type="password" hint={isNew ? undefined : hint} />;
      }),
    )}
  </fieldset>
);

export const schemeOptions: readonly Option[] = [
  ["hmac-sha256", "A shared secret (HMAC)"],
  ["ed25519", "A key pair (ed25519)"],
];

const SignatureFields: FC<{ form: FormState; options: FormOptions }> = ({
  form,
  options: { isNew, scheme },
}) => (
  <>
    {isNew ? (
      <div class="fields">
        <ChoiceField form={form} name="signature" options={schemeOptions} />
        <TextField form={form} name="secret" type="password" hint="Empty generates a new secret." />
        <CheckField form={form} name="handshake" hint="CloudEvents webhook validation (OPTIONS)." />
      </div>
    ) : (
      <p class="small soft">
        {`Signs with ${scheme === "ed25519" ? "a key pair (ed25519)" : "a shared secret (HMAC)"}. Rotate the secret to change that.`}
      </p>
    )}
    <SignatureForms form={{ ...form, labels: { ...form.labels, ...ownLabels } }} />
  </>
);

const ownLabels = fieldsNamed(
  templateLabels(
    Object.fromEntries(Object.entries(templateFields).map(([name, [, label]]) => [name, label])),
  ),
);

/** @param current what applies while a field is empty */
export const LimitFields: FC<{
  form: FormState;
  current?: Readonly<Record<(typeof limitNames)[number], number>>;
}> = ({ form, current = defaultLimits }) => (
  <div class="fields">
    <NumberFields form={form} names={limitNames} current={current} ranges={limitShape.fields} />
  </div>
);

export const BreakerFields: FC<{ form: FormState }> = ({ form }) => (
  <NumberFields form={form} names={breakerNames} current={defaultBreaker} ranges={breakerShape.fields} />
);

type NumbersProps<Name extends string> = Readonly<{
  form: FormState;
  names: readonly Name[];
  /** What applies while a field is empty. */
  current: Readonly<Record<Name, number>>;
  ranges: Readonly<Record<Name, Readonly<{ min: number; max: number }>>>;
}>;

/** A field for each number. */
export const NumberFields = <Name extends string>({ form, names, current, ranges }: NumbersProps<Name>) => (
  <>
    {names.map((name) => (
      <TextField
        form={form}
        name={name}
        type="number"
        placeholder={String(current[name])}
        range={ranges[name]}
      />
    ))}
  </>
);
