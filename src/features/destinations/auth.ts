/**
 * How a destination's requests authenticate, in the API: the accepted fields, the secrets that are never shown again,
 * and conflicts with the headers.
 */

import { z } from "@hono/zod-openapi";
import { recordOf } from "../../core/record.ts";
import { errorAt, errorIf, type FieldError } from "../../core/result.ts";
import { zodOf } from "../../core/zod-of.ts";
import {
  authOf,
  headerOf,
  MASK,
  type ShownAuth,
  sealedAuth,
  shownAuth,
} from "../../delivery/authorization.ts";
import { type DestinationKind, kindNameOf } from "../../delivery/kinds/sending.ts";
import type { Vault } from "../../secrets/vault.ts";
import { type Destination, storedHeaders } from "../../store/destination.ts";
import { strict, textField } from "../parameters.ts";
import { headerName, headerValue } from "./headers.ts";

/** Text that is sent in UTF-8, in a header or a form. */
function plainText(what: string, most: number) {
  const expected = `1 to ${most} characters without control characters: ${what}`;
  return textField(expected, { min: 1, max: most }).refine(
    (given) => !/\p{Cc}/u.test(given),
    `expected ${expected}`,
  );
}

function secretText(what: string) {
  const error = `expected the value itself: ${MASK} is what stands for it`;
  return plainText(what, 1024).refine((given) => given !== MASK, error);
}

const username = plainText("the user name", 256).refine(
  (given) => !given.includes(":"),
  "expected a user name without colons",
);

const TOKEN_EXPECTED = "a bearer token: 1 to 4096 visible ASCII characters";
const bearerToken = textField(TOKEN_EXPECTED, { pattern: /^[!-~]{1,4096}$/ }).refine(
  (given) => given !== MASK,
  `expected ${TOKEN_EXPECTED}`,
);

const scope = textField("scopes with single spaces between (RFC 6749), at most 1024 characters", {
  max: 1024,
  pattern: /^[!#-[\]-~]+( [!#-[\]-~]+)*$/,
});

/** Breakwater sets these itself; a secret has no place among what is shown. */
const RESERVED_PARAMS = ["grant_type", "client_id", "client_secret", "scope", "audience", "client_assertion"];
const MAX_PARAMS = 10;
const PARAMS_EXPECTED =
  `at most ${MAX_PARAMS} parameters with names of 1 to 64 characters, none of ${RESERVED_PARAMS.join(", ")}, and ` +
  "strings of 1 to 1024";
const wrongParams = { error: `expected ${PARAMS_EXPECTED}` };
const params = recordOf(
  textField(PARAMS_EXPECTED, { pattern: /^[\w.-]{1,64}$/ }).refine(
    (name) => !RESERVED_PARAMS.includes(name),
    wrongParams,
  ),
  textField(PARAMS_EXPECTED, { min: 1, max: 1024 }),
  wrongParams,
)
  .refine((given) => Object.keys(given).length <= MAX_PARAMS, wrongParams)
  .openapi({ type: "object", additionalProperties: { type: "string" } });

const clientAuth = z.enum(["basic", "body"], "expected basic or body");

const tokenUrl = textField("an https URL").openapi({
  description: "The token endpoint.",
  example: "https://login.example.com/oauth2/token",
});

/** The input. Secret fields are never shown. */
export const authInput = z
  .discriminatedUnion(
    "kind",
    [
      strict({ kind: z.literal("basic"), username, password: secretText("the password") }),
      strict({ kind: z.literal("bearer"), token: bearerToken }),
      strict({ kind: z.literal("header"), header: headerName, value: headerValue }),
      strict({
        kind: z.literal("oauth2"),
        token_url: tokenUrl,
        client_id: plainText("the client's id", 256),
        client_secret: secretText("the client's secret"),
        scope: scope.nullish(),
        audience: plainText("the audience", 1024).nullish(),
        params: params.nullish().openapi({
          type: ["object", "null"],
          description: "Further parameters of the token request. They are shown, so they must not be secret.",
        }),
        client_auth: clientAuth
          .nullish()
          .describe(
            "How the client authenticates at the token endpoint: `basic`, with a header (the default), or `body`, with " +
              "`client_id` and `client_secret` in the form.",
          ),
      }),
    ],
    "expected an object whose kind is basic, bearer, header or oauth2",
  )
  .openapi("DestinationAuthInput", {
    description:
      "How requests authenticate at the receiver: HTTP Basic, a bearer token, a key in a header, or an access token of OAuth " +
      "2 client credentials. Replaced as a whole. Passwords, tokens and secrets are encrypted, and never shown.",
    example: { kind: "basic", username: "breakwater", password: "correct-horse-battery" },
  });

export type AuthInput = z.infer<typeof authInput>;

/** As it is shown. */
export const authSchema = zodOf(shownAuth).openapi("DestinationAuth", {
  description: "How requests authenticate, without the secret.",
  example: { kind: "basic", username: "breakwater" },
});

/** The column that an input sets: null for null; undefined for what is left out. */
export async function authColumn(vault: Vault, id: string, input: AuthInput | null | undefined) {
  if (!input) return input;
  const { shown, secret } = partsOf(input);
  return sealedAuth(vault, id, shown, secret);
}

function partsOf(input: AuthInput): Readonly<{ shown: ShownAuth; secret: string }> {
  switch (input.kind) {
    case "basic":
      return { shown: { kind: "basic", username: input.username }, secret: input.password };
    case "bearer":
      return { shown: { kind: "bearer" }, secret: input.token };
    case "header":
      return { shown: { kind: "header", header: input.header }, secret: input.value };
    case "oauth2": {
      const {
        client_secret: secret,
        scope = null,
        audience = null,
        params,
        client_auth: way,
        ...rest
      } = input;
      const shown = { ...rest, scope, audience, params: params ?? {}, client_auth: way ?? "basic" };
      return { shown, secret };
    }
  }
}

/** The input that made it: the inverse of `partsOf`. */
export function authInputOf(shown: ShownAuth, secret: string): AuthInput {
  const names = { basic: "password", bearer: "token", header: "value", oauth2: "client_secret" };
  return { ...shown, [names[shown.kind]]: secret } as AuthInput;
}

type Given = Readonly<{
  auth?: AuthInput | null | undefined;
  headers?: Readonly<Record<string, string>> | null | undefined;
  kind?: DestinationKind | null | undefined;
}>;

/** The `auth` after a change, as it is shown; what the input leaves out is as it is stored. */
export function shownAfter({ auth }: Given, stored?: Pick<Destination, "auth">) {
  return auth === undefined ? stored && authOf(stored) : auth && partsOf(auth).shown;
}

/**
 * The errors of an `auth` that the kind has no use for, and of a header that both `headers` and `auth` would set; what
 * the input leaves out is as it is stored.
 */
export function conflictErrors({ auth, headers, kind }: Given, stored?: Destination): FieldError[] {
  const target = stored ? kindNameOf(stored.url) : (kind ?? "https");
  if (auth && (target === "queue" || target === "poll")) {
    const expected = `none: ${target === "poll" ? "consumers poll with an API key" : "the queue's account decides who may read it"}`;
    return errorAt("auth", `is for requests, and a destination of the kind ${target} gets none`, expected);
  }
  const shown = shownAfter({ auth }, stored);
  const names = headers === undefined ? stored && storedHeaders(stored).values : headers;
  const name = shown && Object.keys(names ?? {}).find((one) => one.toLowerCase() === headerOf(shown));
  if (!name) return [];
  const [inHeaders, inAuth] = [`headers.${name}`, `auth of the kind ${shown.kind}`];
  return [
    ...errorIf(Boolean(headers), inHeaders, `is set by ${inAuth} too`, "one of the two"),
    ...errorIf(Boolean(auth), "auth", `sets the header of ${inHeaders}`, "one of the two"),
  ];
}
