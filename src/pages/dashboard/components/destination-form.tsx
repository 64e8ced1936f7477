/**
 * The form of a destination, for creating one and for changing one. The style sheet hides fields that a kind or a way of
 * authentication has no use for, and nothing of them is sent to the API.
 */
import type { Child, FC } from "hono/jsx";
import { breakerShape, defaultBreaker, defaultLimits, limitShape } from "../../../core/limits.ts";
import { templates } from "../../../core/message-templates.ts";
import { destinationKinds, targetFieldNames } from "../../../delivery/kinds/registry.ts";
import { type FieldInput, fieldDescriptions, operatorFields } from "../../../features/destinations/fields.ts";
import { authInputs, authKinds, targetInputs } from "../../../features/destinations/inputs.ts";
import { type FormState, Input, Inputs } from "../../ui/fields.tsx";
import { fieldsNamed, type Option, templateFields } from "../../ui/form-fields.ts";
import { DataList, Fold } from "../../ui/parts.tsx";
import { bodyTexts, kindTexts, orderTexts, templateTexts } from "../../ui/setting-texts.ts";
import { SignatureForms, templateLabels } from "../../ui/signature-forms.tsx";
import { breakerNames, kindIn, limitNames } from "../destination-input.ts";
import { DURATIONS, PolicyFieldsets, presetChoices } from "../simulator/policy-form.tsx";

type FormOptions = Readonly<{
  /** Whether it is being created: kind, tenant and secret are chosen once. */
  isNew: boolean;
  asksTenant: boolean;
  /** Whether it has the inputs of fields that only operators set and see. */
  isForOperators: boolean;
  /** Whether it may be one of the operator's, which get messages for chats. */
  mayHaveTemplate: boolean;
  /** Whether the deployment calls http and private addresses too. */
  allowsHttp: boolean;
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
      {options.asksTenant && <Input form={form} name="tenant" />}
    </div>
    <TypesField form={form} types={options.types} />
    <Group title="Channels and filter" form={form} isOpen={preview !== undefined}>
      <PartInputs form={form} part="filter" />
      {preview}
    </Group>
    <Group title="Body, headers and authentication" form={form}>
      <div class="fields">
        <Input kind="choice" form={form} name="body" options={Object.entries(bodyTexts)} />
        {options.mayHaveTemplate && (
          <Input
            kind="choice"
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
      <Input
        kind="area"
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
      <Input kind="choice" form={form} name="ordering" options={Object.entries(orderTexts.ordering)} />
      <Input form={form} name="ordering_path" />
      <Input kind="choice" form={form} name="on_dead" options={Object.entries(orderTexts.on_dead)} />
    </Group>
    <Group title="Limits and circuit breaker" form={form}>
      <LimitFields form={form} />
      {options.isForOperators && <Inputs form={form} names={operatorFields} />}
      <fieldset class="fields">
        <legend>Circuit breaker</legend>
        <BreakerFields form={form} />
      </fieldset>
    </Group>
    <Group title="Retry policy" form={form}>
      <Input kind="choice" form={form} name="preset" options={presetChoices} hint={DURATIONS} />
      <PolicyFieldsets form={form} />
    </Group>
    <Group title="Your own ID and metadata" form={form}>
      <PartInputs form={form} part="identity" />
      {options.isNew && <Input form={form} name="paused" />}
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

/** The inputs of one part of the form, as the fields are described. */
const PartInputs: FC<{ form: FormState; part: FieldInput["part"] }> = ({ form, part }) => (
  <>
    {fieldDescriptions.map(
      ([name, { input }]) =>
        input?.part === part && (
          <Input form={form} name={name} {...(name === "filter" && { hint: <FilterHint /> })} />
        ),
    )}
  </>
);

/** Fields that most destinations leave alone. All are open where a form was refused, so that no error is hidden. */
const Group: FC<{ title: string; form: FormState; isOpen?: boolean; children?: Child }> = ({
  title,
  form,
  isOpen = false,
  children,
}) => (
  <Fold title={title} open={isOpen || form.detail !== undefined}>
    <div class="stack">{children}</div>
  </Fold>
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
  const hintOf = (name: string) => {
    if (name === "url" && allowsHttp) return "https, or http: this deployment allows private destinations.";
    return name === "token" && !isNew ? "Empty keeps the current token." : undefined;
  };
  return (
    <fieldset class="stack by-kind">
      {isNew && <Input kind="choice" form={form} name="kind" options={Object.entries(kindTexts)} />}
      {Object.keys(targetInputs)
        .filter(isAsked)
        .map((name) => {
          const hint = hintOf(name);
          return <Input form={form} name={name} of={of(name)} {...(hint && { hint })} />;
        })}
    </fieldset>
  );
};

const TypesField: FC<{ form: FormState; types: readonly string[] }> = ({ form, types }) => (
  <>
    <Input form={form} name="event_types" list={types.length > 0 ? "event-types" : undefined} />
    {types.length > 0 && <DataList id="event-types" of={types} />}
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
    <Input kind="choice" form={form} name="auth_kind" options={authOptions} />
    {authInputs.flatMap(([kind, inputs]) =>
      inputs.map(([field, { kind: type, isSecret, options }]) => {
        const of = `${type === "json" ? "all " : ""}only for-${kind}`;
        const hint = "Empty keeps it. Type it again if you change anything else of the authentication.";
        const about = isSecret
          ? { kind: "password" as const, hint: isNew ? undefined : hint }
          : { kind: options ? ("choice" as const) : type };
        return <Input form={form} name={`auth_${field}`} of={of} {...about} />;
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
        <Input kind="choice" form={form} name="signature" options={schemeOptions} />
        <Inputs form={form} names={["secret", "handshake"]} />
      </div>
    ) : (
      <p class="small soft">
        {`Signs with ${scheme === "ed25519" ? "a key pair (ed25519)" : "a shared secret (HMAC)"}. Rotate the secret to change that.`}
      </p>
    )}
    <SignatureForms form={{ ...form, labels: { ...form.labels, ...ownLabels } }} />
  </>
);

const ownLabels = fieldsNamed(templateLabels(templateFields));

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
export const NumberFields = <Name extends string>({ form, names, current, ranges }: NumbersProps<Name>) => (
  <>
    {names.map((name) => (
      <Input form={form} name={name} kind="number" placeholder={String(current[name])} range={ranges[name]} />
    ))}
  </>
);
