/**
 * The form of a destination, for creating one and for changing one. The style sheet hides fields that do not apply to
 * the kind or the way of authentication, and they are not sent to the API.
 */
import type { Child, FC } from "hono/jsx";
import { destinationKinds, targetFieldNames } from "../../../delivery/kinds/registry.ts";
import { type FieldInput, fieldDescriptions, operatorFields } from "../../../features/destinations/fields.ts";
import { authInputs, targetInputs } from "../../../features/destinations/inputs.ts";
import { FormProvider, Input, Inputs, useForm } from "../../ui/fields.tsx";
import { breakerNames, fieldsNamed, limitNames, templateFields } from "../../ui/form-fields.ts";
import { DataList, Fold } from "../../ui/parts.tsx";
import { SignatureForms, templateLabels } from "../../ui/signature-forms.tsx";
import { kindIn } from "../destination-input.ts";
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

export const DestinationFields: FC<{ options: FormOptions; preview?: Child }> = ({ options, preview }) => (
  <>
    <TargetFields {...options} />
    <div class="fields">
      <PartInputs part="name" />
      {options.asksTenant && <Input name="tenant" />}
    </div>
    <TypesField types={options.types} />
    <Group title="Channels and filter" isOpen={preview !== undefined}>
      <PartInputs part="filter" />
      {preview}
    </Group>
    <Group title="Body, headers and authentication">
      <div class="fields">
        <Input name="body" />
        {options.mayHaveTemplate && <Input name="template" />}
      </div>
      <Input name="headers" />
      <AuthFields isNew={options.isNew} />
    </Group>
    <Group title="Signature">
      <SignatureFields {...options} />
    </Group>
    <Group title="Order">
      <PartInputs part="order" />
    </Group>
    <Group title="Limits and circuit breaker">
      <div class="fields">
        <Inputs names={limitNames} />
      </div>
      {options.isForOperators && <Inputs names={operatorFields} />}
      <fieldset class="fields">
        <legend>Circuit breaker</legend>
        <Inputs names={breakerNames} />
      </fieldset>
    </Group>
    <Group title="Retry policy">
      <Input name="preset" options={presetChoices} hint={DURATIONS} />
      <PolicyFieldsets />
    </Group>
    <Group title="Your own ID and metadata">
      <PartInputs part="identity" />
      {options.isNew && <Input name="paused" />}
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
const PartInputs: FC<{ part: FieldInput["part"] }> = ({ part }) => (
  <>
    {fieldDescriptions.map(
      ([name, { input }]) =>
        input?.part === part && <Input name={name} {...(name === "filter" && { hint: <FilterHint /> })} />,
    )}
  </>
);

/** Fields that most destinations do not need. All are open if a form was refused, so that no error is hidden. */
const Group: FC<{ title: string; isOpen?: boolean; children?: Child }> = ({ title, isOpen, children }) => (
  <Fold title={title} open={isOpen || useForm().detail !== undefined}>
    <div class="stack">{children}</div>
  </Fold>
);

const TargetFields: FC<FormOptions> = ({ isNew, allowsHttp }) => {
  const kind = kindIn(useForm().values);
  const isAsked = (name: string) => isNew || targetFieldNames(kind).includes(name);
  /** The class of an input: which kinds it is for. */
  const of = (name: string) => {
    const kinds = destinationKinds.filter((one) => targetFieldNames(one).includes(name));
    return isNew ? ["only", ...kinds.map((one) => `for-${one}`)].join(" ") : "";
  };
  const hintOf = (name: string) => {
    if (name === "url" && allowsHttp) return "https, or http: this deployment allows private destinations.";
    return name === "token" && !isNew ? "Leave it empty to keep the current token." : undefined;
  };
  return (
    <fieldset class="stack by-kind">
      {isNew && <Input name="kind" />}
      {Object.keys(targetInputs)
        .filter(isAsked)
        .map((name) => {
          const hint = hintOf(name);
          return <Input name={name} of={of(name)} {...(hint && { hint })} />;
        })}
    </fieldset>
  );
};

const TypesField: FC<Pick<FormOptions, "types">> = ({ types }) => (
  <>
    <Input name="event_types" list={types.length > 0 ? "event-types" : undefined} />
    {types.length > 0 && <DataList id="event-types" of={types} />}
  </>
);

/** Secret fields stay empty to leave the secrets as they are; after any other change they have to be entered again. */
const AuthFields: FC<Pick<FormOptions, "isNew">> = ({ isNew }) => {
  const hint = isNew
    ? undefined
    : "Leave it empty to keep the current value. Enter it again if you change another part of the authentication.";
  return (
    <fieldset class="fields by-auth">
      <legend>Authentication</legend>
      <Input name="auth_kind" />
      {authInputs.flatMap(([kind, inputs]) =>
        inputs.map(([field, { kind: type, isSecret }]) => {
          const of = `${type === "json" ? "all " : ""}only for-${kind}`;
          return (
            <Input name={`auth_${field}`} of={of} {...(isSecret && { kind: "password" as const, hint })} />
          );
        }),
      )}
    </fieldset>
  );
};

const SignatureFields: FC<FormOptions> = ({ isNew, scheme }) => {
  const form = useForm();
  return (
    <>
      {isNew ? (
        <div class="fields">
          <Inputs names={["signature", "secret", "handshake"]} />
        </div>
      ) : (
        <p class="small soft">
          {`Signs with ${scheme === "ed25519" ? "a key pair (ed25519)" : "a shared secret (HMAC)"}. Rotate the secret to change that.`}
        </p>
      )}
      <FormProvider value={{ ...form, labels: { ...form.labels, ...ownLabels } }}>
        <SignatureForms />
      </FormProvider>
    </>
  );
};

const ownLabels = fieldsNamed(templateLabels(templateFields));
