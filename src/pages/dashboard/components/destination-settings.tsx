/** The settings on a destination's page: payload and target, limits, the retry policy, the signing secret. */

import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { retryPreviewOf } from "../../../core/retry/preview.ts";
import { formsOf, recipeOf, type SignatureForm } from "../../../core/signature-forms.ts";
import type { ShownAuth } from "../../../delivery/authorization.ts";
import { targetInputs } from "../../../features/destinations/inputs.ts";
import { destinationView } from "../../../features/destinations/schema.ts";
import { updateDestination } from "../../../features/destinations/service.ts";
import { sealedScheme } from "../../../secrets/vault.ts";
import {
  breakerOf,
  type Destination,
  limitsOf,
  ownBurstOf,
  retryPolicyOf,
} from "../../../store/destination.ts";
import { isoTime } from "../../../time.ts";
import { FieldForm, formState, Input, Inputs } from "../../ui/fields.tsx";
import { filterTexts } from "../../ui/filter-text.ts";
import { breakerNames, destinationLabels, limitNames } from "../../ui/form-fields.ts";
import type { Form } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { ButtonLink, Facts, Fold, Section } from "../../ui/parts.tsx";
import { SecretRotation } from "../../ui/secret-page.tsx";
import { bodyTexts, formTexts, kindTexts, templateTexts } from "../../ui/setting-texts.ts";
import { summaryOf } from "../simulator/schedule-chart.tsx";

type Setting = readonly [name: string, ...values: readonly string[]];

const UNREADABLE = "Unreadable: set it again";

/** The body, target and credentials of requests, as the API shows them: nothing that is sealed is in it. */
export const Sending: FC<{ row: Destination }> = ({ row }) => (
  <Section id="sending" title="Sending">
    <Facts
      rows={sendingOf(row).map(([name, ...values]) => [name, values.map((value) => <div>{value}</div>)])}
    />
  </Section>
);

function sendingOf(row: Destination): Setting[] {
  const view = destinationView(row);
  const shown: Readonly<Record<string, unknown>> = view;
  const targets = Object.entries(targetInputs).flatMap(([field, { label }]): Setting[] =>
    shown[field] === undefined ? [] : [[label, String(shown[field])]],
  );
  const headers = Object.entries(view.headers).map(([name, mask]) =>
    name === "" ? UNREADABLE : `${name}: ${mask}`,
  );
  return [
    ["Kind", kindTexts[view.kind]],
    ...(view.expires_at === undefined
      ? []
      : [["MCP Events", `A subscription, until ${view.expires_at} unless its client renews it`] as const]),
    ...(targets.length > 0 ? targets : [["Target", UNREADABLE] as const]),
    ...(row.channels === null ? [] : [["Channels", view.channels?.join(", ") ?? UNREADABLE] as const]),
    ...(row.filter === null ? [] : [["Takes events whose data", ...filterLines(row.filter)] as const]),
    ["Body", view.template === null ? bodyTexts[view.body] : templateTexts[view.template]],
    ["Signature", ...formsOf(row.signatureForms).map((form) => signatureText(form, view.signature))],
    ["Authentication", ...(row.auth !== null && view.auth === null ? [UNREADABLE] : authTexts(view.auth))],
    ["Headers", ...(headers.length > 0 ? headers : ["None of its own"])],
  ];
}

/** All lines hold; a filter that routing cannot read takes everything. */
function filterLines(filter: unknown): readonly string[] {
  const texts = filterTexts(filter);
  return texts?.map((text, i) => (i === 0 ? text : `and ${text}`)) ?? [UNREADABLE];
}

/** @param scheme of the secret */
function signatureText(form: SignatureForm, scheme: string): string {
  const recipe = recipeOf(form);
  const { content, digest, header, prefix, headers } = recipe;
  if (scheme === "ed25519" && recipe.takesKeyPairs)
    return `${formTexts[form.form]} with ed25519, in ${header}`;
  const algorithm = `HMAC-${digest.algorithm.toUpperCase().replace("SHA", "SHA-")}`;
  const named = `${formTexts[form.form]} with ${algorithm}, in ${header}`;
  if (form.form !== "template") return named;
  const signed = `${named}${prefix === "" ? "" : ` after ${prefix}`}, as ${digest.encoding}, of ${content.replaceAll("\n", "\\n")}`;
  return [signed, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)].join("; ");
}

function authTexts(auth: ShownAuth | null): readonly string[] {
  switch (auth?.kind) {
    case undefined:
      return ["None besides the signature"];
    case "basic":
      return [`HTTP Basic as ${auth.username}`];
    case "bearer":
      return ["Bearer token"];
    case "header":
      return [`Key in the header ${auth.header}`];
    case "oauth2": {
      const { token_url: url, client_id: client, scope, audience, params, client_auth: way } = auth;
      return [
        `OAuth 2 client credentials as ${client}, ${way === "basic" ? "in a header" : "in the form"}`,
        `Token endpoint: ${url}`,
        ...(scope === null ? [] : [`Scope: ${scope}`]),
        ...(audience === null ? [] : [`Audience: ${audience}`]),
        ...Object.entries(params).map(([name, value]) => `${name}: ${value}`),
      ];
    }
  }
}

type LimitsProps = Readonly<{
  row: Destination;
  path: string;
  /** The submitted form, if it was refused. */
  typed?: Form | undefined;
  refused?: Refused | undefined;
}>;

export const LimitsForm: FC<LimitsProps> = ({ row, path, typed, refused }) => {
  const mayChange = usePage().mayCall(updateDestination);
  const current = limitsOf(row);
  // A burst that follows from the rate stays empty. Otherwise saving another rate would make it fixed.
  const stored = { ...current, rate_burst: ownBurstOf(row) ?? "", ...breakerOf(row) };
  const form = formState({ ...stored, ...typed }, destinationLabels, typed && refused);
  return (
    <Section id="limits" title="Limits">
      <FieldForm
        form={form}
        action={`${path}/limits`}
        hidden={{ read_at: isoTime(row.updatedAt) }}
        submit={mayChange && "Save limits"}
        button=""
        hint={mayChange && "Leave a field empty to use its default."}
      >
        <fieldset class="fields" disabled={!mayChange}>
          {limitNames.map((name) => (
            <Input name={name} placeholder={String(current[name])} />
          ))}
        </fieldset>
        <Fold title="Circuit breaker" open={form.detail !== undefined}>
          <fieldset class="fields" disabled={!mayChange}>
            <Inputs names={breakerNames} />
          </fieldset>
        </Fold>
      </FieldForm>
    </Section>
  );
};

/** The number of attempts in the summary. */
const PREVIEWED = 200;

/** The policy in a sentence, with a link to the simulator, where others can be tried. */
export const RetryPolicySummary: FC<{ row: Destination }> = ({ row }) => {
  const policy = retryPolicyOf(row);
  return (
    <Section id="retry-policy" title="Retry policy">
      <p class="summary">{summaryOf(policy, retryPreviewOf(policy, PREVIEWED))}</p>
      <ButtonLink href={`/dashboard/simulator?destination=${row.id}`}>Open in the simulator</ButtonLink>
    </Section>
  );
};

/** The form that rotates the secret, with the choice of how to sign. */
export const Rotation: FC<Omit<LimitsProps, "refused">> = ({ path, row, typed }) => {
  const labels = {
    ...destinationLabels,
    overlap_s: ["overlap_hours", usePage().t.secret.overlap] as const,
  };
  const form = formState({ signature: sealedScheme(row.secret), overlap_hours: 24, ...typed }, labels);
  return (
    <SecretRotation path={path} row={row} form={form} isOpen={typed !== undefined}>
      <Input name="signature" />
    </SecretRotation>
  );
};
