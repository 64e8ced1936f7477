/** Form fields with several inputs each: a destination's target, by its kind (delivery/kinds), and its `auth` (auth.ts). */
import type { targetFields } from "../../delivery/kinds/registry.ts";
import type { AuthInput } from "./auth.ts";
import type { FieldInput } from "./fields.ts";

type TargetInput = Readonly<{
  label: string;
  kind?: "url" | "password";
  placeholder?: string;
  hint?: string;
}>;

export const targetInputs = {
  url: { label: "URL", kind: "url", placeholder: "https://example.com/webhooks" },
  binding: {
    label: "Binding",
    placeholder: "ORDERS",
    hint: "A binding that the deployment has for the tenant.",
  },
  path: { label: "Path", placeholder: "/hook" },
  account_id: { label: "Account", hint: "Only for a queue without a binding." },
  queue_id: { label: "Queue" },
  token: { label: "API token", kind: "password" },
} as const satisfies Readonly<Record<keyof typeof targetFields, TargetInput>>;

type AuthField = Pick<FieldInput, "placeholder" | "expected"> &
  Readonly<{
    label: string;
    kind?: "json";
    /** It is never shown. */
    isSecret?: true;
    options?: readonly (readonly [value: string, label: string])[];
  }>;

type AuthKinds = {
  [K in AuthInput["kind"]]: Readonly<{
    label: string;
    inputs: Readonly<Record<Exclude<keyof Extract<AuthInput, { kind: K }>, "kind">, AuthField>>;
  }>;
};

export const authKinds = {
  basic: {
    label: "HTTP Basic",
    inputs: { username: { label: "User name" }, password: { label: "Password", isSecret: true } },
  },
  bearer: { label: "Bearer token", inputs: { token: { label: "Bearer token", isSecret: true } } },
  header: {
    label: "Key in a header",
    inputs: {
      header: { label: "Name of the header", placeholder: "X-Api-Key" },
      value: { label: "Value of the header", isSecret: true },
    },
  },
  oauth2: {
    label: "OAuth 2 client credentials",
    inputs: {
      token_url: { label: "Token endpoint", placeholder: "https://login.example.com/oauth2/token" },
      client_id: { label: "Client ID" },
      client_secret: { label: "Client secret", isSecret: true },
      scope: { label: "Scope" },
      audience: { label: "Audience" },
      client_auth: {
        label: "Client authenticates",
        options: [
          ["basic", "with a header"],
          ["body", "in the form"],
        ],
      },
      params: {
        label: "Further parameters (JSON)",
        kind: "json",
        placeholder: '{"resource": "urn:hooks"}',
        expected: 'an object of strings, such as {"resource": "urn:hooks"}',
      },
    },
  },
} as const satisfies AuthKinds;

/** The inputs of `auth` of each kind, by the name of the field. */
export const authInputs: readonly (readonly [
  kind: string,
  inputs: readonly (readonly [string, AuthField])[],
])[] = Object.entries(authKinds).map(([kind, { inputs }]) => [kind, Object.entries<AuthField>(inputs)]);
